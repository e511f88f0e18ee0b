"""Reading Parquet files. One that declares too much memory is refused: a value that repeats takes no room in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from driftcal.errors import DataError, DriftcalError, need
from driftcal.io.limits import ARRAY_BYTES, ARRAY_RATIO
from driftcal.io.paths import check_regular
from driftcal.io.unpacked_size import check_unpacked_size

#: Samples of a column that are read at a time.
_PART = 1 << 14
_WAY_OUT = "If it is yours, split it, or leave columns out."


def read_parquet(path: Path) -> Any:
    """The columns of a Parquet file as a pyarrow table; each must hold one value per sample.

    A file that unpacks to more than 1 GiB and more than 100 times its size is refused; `driftcal.io.limits` says how to
    raise this.
    """
    arrow, parquet = need("pyarrow", "parquet"), need("pyarrow.parquet", "parquet")
    check_regular(path, "data", DataError)
    try:
        with path.open("rb") as stream:
            schema = parquet.read_schema(stream)
        n_bytes, texts = _width(schema, path)
        with path.open("rb") as stream:
            # text is read as codes and words, so that a word that repeats takes its memory once until it was measured
            file = parquet.ParquetFile(stream, read_dictionary=texts)
            declared = max(n_bytes * file.metadata.num_rows, _declared_bytes(file.metadata))
            _check(path, declared)
            columns = []
            for field in schema:
                parts = []
                # a part of a column at a time: what the file declares may be wrong
                for batch in file.iter_batches(_PART, columns=[field.name]):
                    part = batch.column(field.name)
                    declared += _text_bytes(part) if field.name in texts else 0
                    _check(path, declared)
                    parts.append(part)
                columns.append(arrow.chunked_array(parts, parts[0].type if parts else field.type))
        return arrow.table(columns, names=schema.names).cast(schema)
    except FileNotFoundError as error:
        raise DataError(f"there is no file {str(path)!r}.") from error
    except DriftcalError:
        raise
    except Exception as error:  # pyarrow has many classes of errors
        raise DataError(
            f"{str(path)!r} must be a Parquet file; reading failed: {type(error).__name__}: {error}. Write it again."
        ) from error


def _width(schema: Any, path: Path) -> tuple[int, list[str]]:
    """Bytes of one sample without text, and the names of the columns of text."""
    types = need("pyarrow.types", "parquet")
    n_bytes, texts = 0, []
    for field in schema:
        kind = field.type
        if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
            texts.append(field.name)
        elif types.is_fixed_size_binary(kind) and not types.is_decimal(kind):
            n_bytes += kind.byte_width
        elif types.is_primitive(kind) or types.is_decimal(kind) or types.is_null(kind) or types.is_dictionary(kind):
            n_bytes += 16 if types.is_decimal(kind) else 8
        else:
            raise DataError(
                f"{str(path)!r} must hold one value per sample in each column; column {field.name!r} has the type {kind}. "
                "Leave it out, or write a column for each of its values."
            )
    if len(set(schema.names)) < len(schema.names):
        repeated = next(name for name in schema.names if schema.names.count(name) > 1)
        raise DataError(
            f"the columns of {str(path)!r} must have different names; {repeated!r} is there twice. Rename one."
        )
    return n_bytes, texts


def _declared_bytes(metadata: Any) -> int:
    return sum(metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups))


def _text_bytes(column: Any) -> int:
    """Bytes of the text of some samples, once it is no longer codes and words."""
    compute = need("pyarrow.compute", "parquet")
    return compute.sum(compute.take(compute.binary_length(column.dictionary), column.indices)).as_py() or 0


def _check(path: Path, unpacked: int) -> None:
    check_unpacked_size(
        path, unpacked, always_allowed=ARRAY_BYTES, max_ratio=ARRAY_RATIO, error=DataError, way_out=_WAY_OUT
    )
