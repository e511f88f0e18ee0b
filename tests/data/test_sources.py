"""Laws of every source: samples, splits, fingerprints; arrays, npz files and names."""

from __future__ import annotations

import hashlib
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftcal import open_model, open_source
from driftcal.data import SOURCES, Source, bundled, from_arrays
from driftcal.errors import DataError, ImagesError, InputError, LabelsError, UnknownName

X = np.random.default_rng(0).random((37, 4, 5, 3), np.float32)
Y = np.arange(37) % 4


@given(st.integers(1, 50), st.integers(0, 40), st.integers(0, 45))
def test_batches_cover_each_sample_once_at_fixed_cuts(batch_size, start, stop):
    source = from_arrays(X, Y)
    batches = list(source.batches(batch_size, start, stop))
    covered = np.concatenate([batch.indices for batch in batches]) if batches else np.zeros(0, int)
    assert np.array_equal(covered, np.arange(start, min(stop, 37)))
    for inputs, labels, indices in batches:
        assert inputs.dtype == np.float32
        assert labels.dtype == np.int64
        assert np.array_equal(inputs, X[indices])
        assert np.array_equal(labels, Y[indices])
        assert indices[0] // batch_size == indices[-1] // batch_size, "a batch never crosses a multiple of its size"


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(1, 16))
def test_splits_are_disjoint_complete_and_repeatable(seed, a, b):
    source = from_arrays(X, Y)
    parts = source.split(a, b, random_state=seed)
    assert [len(part) for part in parts] == [a, b, 37 - a - b]
    assert sorted(np.concatenate([part.indices for part in parts]).tolist()) == list(range(37))
    repeated = source.split(a, b, random_state=seed)
    assert [part.fingerprint for part in parts] == [part.fingerprint for part in repeated]
    assert np.array_equal(parts[0].indices, np.random.default_rng(seed).permutation(37)[:a])
    assert parts[1].selections[-1] == {"of": 37, "split": 1, "samples": [a, a + b], "seed": seed}


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_split_classes_takes_as_many_of_each_class_and_spreads_them(seed, n_per_class):
    labels = np.random.default_rng(seed).permutation(np.arange(37) % 5)
    source = from_arrays(X, labels)
    first, second = source.split_classes(n_per_class, random_state=seed)
    assert np.bincount(first.labels).tolist() == [n_per_class] * 5
    assert sorted([*first.indices, *second.indices]) == list(range(37))
    for part in (first, second.subset(np.arange(5 * (7 - n_per_class)))):  # two classes have an eighth sample
        for begin in range(0, len(part), 5):
            assert set(part.labels[begin : begin + 5].tolist()) == set(range(5))
    again = source.split_classes(n_per_class, random_state=seed)
    assert [part.fingerprint for part in again] == [first.fingerprint, second.fingerprint]
    assert first.selections[-1] == {"of": 37, "split": 0, "per_class": n_per_class, "seed": seed}


def test_split_classes_refuses_too_many_and_skips_unlabelled_samples():
    source = from_arrays(X[:6], np.array([0, 1, -1, 0, 1, 0]), class_names=["a", "b"])
    first, second = source.split_classes(1)
    assert (len(first), len(second)) == (2, 3)
    assert 2 not in [*first.indices, *second.indices]
    for n_per_class in (0, 3):
        with pytest.raises(InputError, match=f"it is {n_per_class}, and a class of .* has at most 3"):
            source.split_classes(n_per_class)


def test_a_sample_keeps_its_index_through_subsets():
    source = from_arrays(X, Y, groups=np.arange(37) * 10)
    part = source.split(0.5, random_state=1)[1].subset([3, 1])
    (inputs, labels, indices), *rest = part.batches(8)
    assert not rest
    assert np.array_equal(inputs, X[indices])
    assert np.array_equal(labels, Y[indices])
    assert np.array_equal(part.groups, indices * 10)
    assert len(part.selections) == 2
    mask = source.subset(Y == 2)
    assert (mask.labels == 2).all()


def test_fingerprints_depend_on_pixels_labels_and_choice():
    one = from_arrays(X, Y)
    assert from_arrays(X.copy(), Y.tolist()).fingerprint == one.fingerprint
    other_pixel = X.copy()
    other_pixel[5, 0, 0, 0] = 0.123
    others = [
        from_arrays(other_pixel, Y),
        from_arrays(X, (Y + 1) % 4),
        from_arrays(X, Y, class_names=list("abcd")),
        from_arrays((X * 255).astype(np.uint8), Y),
        one.subset(range(36)),
        one.subset([1, 0, *range(2, 37)]),
    ]
    assert len({one.fingerprint, *(other.fingerprint for other in others)}) == 7


def test_images_features_and_unlabelled_samples():
    grey = from_arrays(np.full((3, 4, 4), 51, np.uint8), [0, 1, 2])
    assert grey.input_shape == (4, 4, 1)
    assert grey.kind == "images"
    assert (grey.inputs() == np.float32(51) / np.float32(255)).all()
    table = from_arrays(np.arange(12).reshape(4, 3), ["b", "a", "b", "c"], class_names="abc")
    assert table.kind == "features"
    assert table.class_names == ("a", "b", "c")
    assert table.labels.tolist() == [1, 0, 1, 2]
    ood = from_arrays(X, np.where(Y == 3, -1, Y))
    assert ood.n_classes == 3
    assert (ood.unlabelled().labels == -1).all()
    assert len(ood.labelled()) + len(ood.unlabelled()) == 37
    assert ood.metadata()["out_of_distribution"] == 9


def test_memory_maps_stay_on_disk(tmp_path):
    np.save(tmp_path / "x.npy", (X * 255).astype(np.uint8))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    source = from_arrays(mapped, Y)
    np.testing.assert_allclose(source.inputs(), np.floor(X * 255) / 255, atol=1e-6)


@pytest.mark.parametrize(
    ("x", "y", "error", "match"),
    [
        (X * 255, Y, ImagesError, r"must lie in \[0, 1\]; image 0 spans .* divide by 255"),
        (X - 1, Y, ImagesError, "Already normalised"),
        (
            np.where(X > 0.999, np.nan, X),
            Y,
            ImagesError,
            r"finite numbers; image \d+ holds NaN at .* Repair or drop it\.$",
        ),
        (np.where(X > 0.999, np.inf, X), Y, ImagesError, r"image \d+ holds infinity at .* Repair or drop it\.$"),
        (np.where(X > 0.999, -np.inf, X), Y, ImagesError, r"image \d+ holds minus infinity at .* Repair or drop it\.$"),
        (X.transpose(0, 3, 1, 2), Y, ImagesError, r"1 or 3 channels.*move the axis"),
        ((X * 255).astype(np.int64), Y, ImagesError, "uint8"),
        (X[0, 0, 0], Y, ImagesError, r"images \(n, H, W\)"),
        (X[:0], Y[:0], ImagesError, "at least one sample"),
        (np.full((4, 2), np.inf), np.arange(4), ImagesError, "sample 0 holds infinity"),
        (X, Y[:-1], LabelsError, "37 samples and 36 labels"),
        (X, Y + 0.5, LabelsError, "sample 0 has 0.5"),
        (X, X, LabelsError, "one label per sample"),
        (X, Y - 2, DataError, r"sample 0 has -2"),
    ],
)
def test_unusable_arrays_are_refused(x, y, error, match):
    with pytest.raises(error, match=match):
        from_arrays(x, y)


def test_unusable_choices_are_refused():
    source = from_arrays(X, Y)
    with pytest.raises(InputError, match=r"positions must be 0\.\.36"):
        source.subset([37])
    with pytest.raises(InputError, match="at most 37 together"):
        source.split(30, 30)
    with pytest.raises(InputError, match="missing"):
        source.split()
    with pytest.raises(InputError, match="batch_size must be at least 1"):
        next(source.batches(0))
    with pytest.raises(DataError, match=r"labels of arrays must be 0\.\.2.*sample 3 has 3"):
        from_arrays(X, Y, class_names=["a", "b", "c"])
    with pytest.raises(LabelsError, match="sample 1 has 'z'"):
        from_arrays(X[:2], ["a", "z"], class_names=["a", "b"])
    with pytest.raises(InputError, match="one group per sample"):
        from_arrays(X, Y, groups=[1, 2])
    integers = Source(
        "mine", lambda indices: np.zeros((len(indices), 2), int), np.zeros(3, int), ("a", "b"), lambda: ""
    )
    with pytest.raises(DataError, match=r"must give 3 float32 inputs \(features may be float64\); it gave 3 of int64"):
        integers.inputs()


def test_npz_files(tmp_path):
    np.savez(tmp_path / "val.npz", x=X, y=Y, class_names=np.array(list("abcd")), groups=Y * 2)
    source = open_source(tmp_path / "val.npz")
    assert source.class_names == tuple("abcd")
    assert np.array_equal(source.groups, Y * 2)
    np.savez(tmp_path / "odd.npz", pictures=X, truth=Y, camera=Y)
    with pytest.raises(DataError, match=r"named 'x' with inputs; it holds 'pictures', 'truth', 'camera'\. .*x=NAME"):
        open_source(tmp_path / "odd.npz")
    odd = open_source(f"{tmp_path / 'odd.npz'}?x=pictures&y=truth&group=camera")
    assert len(odd) == 37
    assert odd.groups is not None
    with pytest.raises(DataError, match="named 'thruth' with labels"):
        open_source(tmp_path / "odd.npz", x="pictures", y="thruth")
    np.savez(tmp_path / "objects.npz", x=X, y=np.array([{"a": 1}] * 37, dtype=object))
    with pytest.raises(DataError, match="plain arrays"):
        open_source(tmp_path / "objects.npz")
    (tmp_path / "broken.npz").write_bytes((tmp_path / "val.npz").read_bytes()[:900])
    with pytest.raises(DataError, match=r"broken\.npz.*plain arrays"):
        open_source(tmp_path / "broken.npz")
    with pytest.raises(DataError, match="no file"):
        open_source("npz=" + str(tmp_path / "none.npz"))


def test_digits_are_grey_images():
    source = open_source("digits")
    assert (len(source), source.n_classes, source.input_shape) == (1797, 10, (8, 8, 1))
    images = source.inputs()
    assert images.min() == 0
    assert images.max() == 1


def test_the_bundled_photographs_and_their_network():
    source = open_source("fashion-mnist")
    assert (len(source), source.n_classes, source.input_shape) == (2000, 10, (28, 28, 1))
    folder = bundled.FASHION_IMAGES.parent
    text = (folder / "README.md").read_text()
    digests = dict(re.findall(r"\| `(.+?)` \| ([0-9a-f]{64}) \|", text))
    assert digests == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (bundled.FASHION_NETWORK, bundled.FASHION_IMAGES)
    }
    assert "MIT licence" in text
    assert sum(path.stat().st_size for path in folder.iterdir()) < 6e6
    logits = open_model(bundled.FASHION_NETWORK).logits(source.inputs())
    assert (logits.argmax(axis=1) == source.labels).mean() > 0.91


def test_sources_by_name():
    source = from_arrays(X, Y)
    assert open_source(source) is source
    assert len(open_source((X, Y))) == 37
    with pytest.raises(UnknownName, match="source 'cifar'; did you mean 'cifar10'"):
        open_source("cifar=somewhere")
    with pytest.raises(DataError, match=r"no file or folder 'nowhere'.*cifar10=DIR"):
        open_source("nowhere")
    with pytest.raises(InputError, match="its options: "):
        open_source("digits", part="test")
    with pytest.raises(InputError, match="Write cifar10=DIR"):
        open_source("cifar10")
    with pytest.raises(InputError, match=r"pair \(x, y\)"):
        open_source(X)
    with pytest.raises(InputError, match="takes no options"):
        open_source(source, size=3)
    with pytest.raises(DataError, match=r"must be a \.npz, \.csv or \.parquet file or a folder"):
        open_source(__file__)
    assert {
        "digits",
        "fashion-mnist",
        "npz",
        "csv",
        "parquet",
        "folder",
        "cifar10",
        "cifar10-c",
        "imagenet",
        "imagenet-c",
        "objectnet",
    } == set(SOURCES)


TABLE = np.arange(12.0).reshape(4, 3)


def test_categorical_columns_stay_with_the_source(tmp_path):
    source = open_source((TABLE, [0, 1, 0, -1]), categorical=[-1, 0])
    assert source.categorical == (0, 2)
    parts = [source.subset([1, 0]), source.labelled(), source.split(2)[1], source.with_groups(list("abcd"))]
    parts.append(source.with_classes(["9", "0", "1"]))
    assert {part.categorical for part in parts} == {(0, 2)}
    assert source.metadata()["categorical"] == [0, 2]
    assert source.fingerprint == open_source((TABLE, [0, 1, 0, -1])).fingerprint, "they change the shift only"
    assert open_source(source).categorical == (0, 2)
    assert open_source(source, categorical=[1]).categorical == (1,)
    assert open_source(source, categorical=[]).categorical == ()
    np.savez(tmp_path / "table.npz", x=TABLE, y=[0, 1, 0, 1])
    assert open_source(tmp_path / "table.npz", categorical=[1]).categorical == (1,)
    assert open_source(f"{tmp_path / 'table.npz'}?categorical=0,2").categorical == (0, 2)
    assert open_source((X, Y), categorical=()).categorical == ()


def test_categorical_columns_of_a_data_frame_have_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE, columns=["size", "colour", "shop"])
    assert open_source((frame, [0, 1, 0, 1]), categorical=["shop", "size"]).categorical == (0, 2)
    assert open_source((frame, [0, 1, 0, 1]), categorical="shop").categorical == (2,)
    with pytest.raises(UnknownName, match=r"there is no column 'color'; did you mean 'colour'"):
        open_source((frame, [0, 1, 0, 1]), categorical=["color"])
    frame["colour"] = ["red", "blue", "red", "red"]
    source = open_source((frame, [0, 1, 0, 1]), categorical=["colour"])
    pandas.testing.assert_frame_equal(source.inputs(), frame)
    with pytest.raises(
        InputError, match=r"^x must be numbers, or a table.*Pass a table with text as a pandas data frame"
    ):
        open_source((frame.to_numpy(), [0, 1, 0, 1]))


def test_wrong_categorical_columns_are_refused():
    for columns, match in (
        ([3], "it holds 3"),
        ([True], "it holds True"),
        (["shop"], "column numbers from 0 to 2; it"),
    ):
        with pytest.raises(InputError, match=match):
            from_arrays(TABLE, [0, 1, 0, 1], categorical=columns)
    with pytest.raises(InputError, match="categorical needs features"):
        from_arrays(X, Y, categorical=[0])


def test_class_names_in_text_are_separated_by_commas(tmp_path):
    np.savez(tmp_path / "val.npz", x=TABLE, y=["cat", "dog", "cat", "dog"])
    source = open_source(f"{tmp_path / 'val.npz'}?class_names=dog,cat")
    assert source.class_names == ("dog", "cat")
    assert source.labels.tolist() == [1, 0, 1, 0]


def test_class_names_in_a_file_are_names(tmp_path):
    x, y = np.eye(4), [0, 1, 1, 0]
    np.savez(tmp_path / "a.npz", x=x, y=y, class_names=[b"ant", "b\u00e9e".encode()])
    assert open_source(tmp_path / "a.npz").class_names == ("ant", "b\u00e9e")
    for names in (
        np.zeros((2, 2)),
        np.zeros((3, 0), int),
        np.zeros(2),
        np.zeros(0, "U1"),
        np.zeros(1_000_001, np.uint8),
    ):
        np.savez(tmp_path / "a.npz", x=x, y=y, class_names=names)
        with pytest.raises(
            DataError, match=r"class_names in .*a\.npz' must hold the name of each class, at most 1,000,000"
        ):
            open_source(tmp_path / "a.npz")
