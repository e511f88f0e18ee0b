"""The published data sets, as small folders in their layouts."""

from __future__ import annotations

import json
import pickle
import struct
import sys

import numpy as np
import pytest
from PIL import Image

from driftcal import open_source
from driftcal.data import cifar10_corruptions, imagenet_corruptions
from driftcal.errors import DataError, InputError, UnknownName

RNG = np.random.default_rng(5)


def save_image(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def plain_image(colour, size=(10, 12)):
    return np.full((*size, 3), colour, np.uint8)


# folders


def test_each_sub_folder_is_a_class(tmp_path):
    for number, name in enumerate(["cat", "dog & 'co'\n", "<img src=x>"]):
        for item in range(3):
            save_image(tmp_path / name / f"{item}.png", plain_image(40 * number + item))
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    source = open_source(tmp_path)
    assert source.class_names == tuple(sorted(["cat", "dog & 'co'\n", "<img src=x>"]))
    assert len(source) == 9
    assert source.input_shape == (10, 12, 3)
    inputs, labels, indices = next(source.batches(100))
    assert np.array_equal(indices, np.arange(9))
    np.testing.assert_array_equal(inputs[:, 0, 0, 0] * 255, [80, 81, 82, 0, 1, 2, 40, 41, 42])
    assert labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    before = source.fingerprint
    assert open_source(f"folder={tmp_path}").fingerprint == before
    assert open_source(tmp_path, size=8).fingerprint != before
    save_image(tmp_path / "cat" / "0.png", plain_image(9))
    assert open_source(tmp_path).fingerprint != before
    assert open_source(f"{tmp_path}?grey=true&size=4x6").input_shape == (4, 6, 1)


def test_groups_come_from_a_csv_file(tmp_path):
    for name in "ab":
        for item in range(2):
            save_image(tmp_path / "photos" / name / f"{item}.png", plain_image(7))
    table = tmp_path / "cameras.csv"
    table.write_text("path,camera\na/0.png,one\na/1.png,two\nb/0.png,one\nb/1.png,two\n")
    source = open_source(tmp_path / "photos", groups=table)
    assert source.groups.tolist() == ["one", "two", "one", "two"]
    table.write_text("a/0.png,one\n")
    with pytest.raises(DataError, match=r"has no line for 'a/1\.png'"):
        open_source(tmp_path / "photos", groups=table)
    with pytest.raises(DataError, match="groups must be a CSV file"):
        open_source(tmp_path / "photos", groups=tmp_path / "none.csv")
    two = open_source(tmp_path / "photos").subset([2, 0]).with_groups(["x", "y"])
    assert two.groups.tolist() == ["x", "y"]
    assert two.subset([1]).groups.tolist() == ["y"]
    with pytest.raises(InputError, match="one group per sample"):
        two.with_groups(["x"])


def test_images_are_scaled_and_cut_at_the_centre(tmp_path):
    picture = np.zeros((40, 80, 3), np.uint8)
    picture[:, 30:50] = 200  # the centre
    for name in "ab":
        save_image(tmp_path / name / "0.png", picture)
    centre = open_source(tmp_path, size=20, crop=1.0).inputs()[0]
    assert centre.shape == (20, 20, 3)
    assert centre[10, 10, 0] == np.float32(200 / 255)
    assert centre[10, 0, 0] == 0
    half = open_source(tmp_path, size=10, crop=0.5).inputs()[0]
    assert half.min() > 0.5, "half of the shorter side, all of it bright"


def test_damaged_images_are_named(tmp_path):
    for name in "ab":
        save_image(tmp_path / name / "0.png", plain_image(3))
    good = (tmp_path / "a" / "0.png").read_bytes()
    (tmp_path / "b" / "1.png").write_bytes(good[: len(good) // 2])
    source = open_source(tmp_path)
    with pytest.raises(DataError, match=r"b/1\.png' cannot be decoded"):
        source.inputs()
    (tmp_path / "b" / "1.png").write_bytes(b"<html>404</html>")
    with pytest.raises(DataError, match=r"1\.png' cannot be decoded"):
        source.inputs()
    (tmp_path / "b" / "1.png").unlink()
    with pytest.raises(DataError, match=r"no image .*1\.png' any more"):
        source.inputs()
    save_image(tmp_path / "b" / "1.png", plain_image(3, (5, 5)))
    with pytest.raises(DataError, match=r"images must have one size.*Give size="):
        source.inputs()


def test_unusable_folders_are_refused(tmp_path):
    with pytest.raises(DataError, match="there is none"):
        open_source(f"folder={tmp_path / 'none'}")
    with pytest.raises(DataError, match="at least two; it holds 0"):
        open_source(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with pytest.raises(DataError, match="no image under"):
        open_source(tmp_path)
    save_image(tmp_path / "a" / "0.png", plain_image(1))
    with pytest.raises(DataError, match=r"folder 'b' .* not among class_names"):
        open_source(tmp_path, class_names=["a", "c"])
    with pytest.raises(InputError, match="size must be"):
        open_source(tmp_path, size=0)
    for option, value in (
        ("size", float("inf")), ("size", (4.5, 4)), ("size", (4, 4, 4)), ("crop", "x"), ("crop", float("nan")),
        ("threads", -1), ("threads", 0), ("threads", "x"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=f"{option} must be"):
            open_source(tmp_path, **{"size": 4, option: value}).inputs()
    with pytest.raises(InputError, match="crop must be"):
        open_source(tmp_path, size=3, crop=2)


# CIFAR-10

N = 7
PIXELS = RNG.integers(0, 256, (6, N, 32, 32, 3), np.uint8)
LABELS = RNG.integers(0, 10, (6, N))
NAMES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]


def planes(pixels):
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)).reshape(len(pixels), -1)


def python_2_pickle(data, labels):
    """The bytes that Python 2 wrote: protocol 2, text and pixels as byte strings, numpy under its old name."""

    def text(value):
        return b"U" + bytes([len(value)]) + value

    array = b"cnumpy.core.multiarray\n_reconstruct\n" + b"cnumpy\nndarray\n" + b"K\x00\x85" + text(b"b") + b"\x87R"
    dtype = b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R"
    dtype += b"(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    shape = b"M" + struct.pack("<H", data.shape[0]) + b"M" + struct.pack("<H", data.shape[1]) + b"\x86"
    raw = data.tobytes()
    state = b"(K\x01" + shape + dtype + b"\x89" + b"T" + struct.pack("<i", len(raw)) + raw + b"tb"
    items = text(b"data") + array + state + text(b"labels") + b"](" + b"".join(b"K" + bytes([n]) for n in labels) + b"e"
    return b"\x80\x02}(" + items + text(b"batch_label") + text(b"testing batch 1 of 1") + b"u."


def write_cifar(folder, form):
    folder.mkdir(parents=True)
    for name, pixels, labels in zip(NAMES, PIXELS, LABELS, strict=True):
        if form == "python":
            content = {b"data": planes(pixels), b"labels": labels.tolist(), b"filenames": [b"x"] * N}
            (folder / name).write_bytes(pickle.dumps(content, protocol=2))
        elif form == "python2":
            (folder / name).write_bytes(python_2_pickle(planes(pixels), labels.tolist()))
        elif form == "binary":
            records = np.concatenate([labels[:, None].astype(np.uint8), planes(pixels)], axis=1)
            (folder / f"{name}.bin").write_bytes(records.tobytes())
        else:
            save_image(folder / f"{name}.png", pixels.reshape(N, 1024, 3))
    if form == "png":
        (folder / "train_lables.json").write_text(json.dumps(LABELS[:5].reshape(-1).tolist()))
        (folder / "test_lables.json").write_text(json.dumps(LABELS[5].tolist()))


@pytest.mark.parametrize("form", ["python", "python2", "binary", "png"])
def test_every_form_of_cifar10_is_the_same_data(tmp_path, form):
    inner = {"binary": "cifar-10-batches-bin", "png": "package"}.get(form, "cifar-10-batches-py")
    write_cifar(tmp_path / inner, form)
    test = open_source(f"cifar10={tmp_path}")
    np.testing.assert_array_equal(test.inputs(), PIXELS[5] / np.float32(255))
    assert np.array_equal(test.labels, LABELS[5])
    assert test.class_names[3] == "cat"
    train = open_source(f"cifar10={tmp_path / inner}?part=train")
    assert np.array_equal(train.labels, LABELS[:5].reshape(-1))
    everything = open_source(f"cifar10={tmp_path}", part="all")
    np.testing.assert_array_equal(everything.inputs()[-N:], PIXELS[5] / np.float32(255))
    assert len(everything) == 6 * N
    with pytest.raises(UnknownName, match="part of CIFAR-10 'tset'; did you mean 'test'"):
        open_source(f"cifar10={tmp_path}", part="tset")


RAN: list[str] = []


def explode():
    RAN.append("code from a file")


class Evil:
    def __reduce__(self):
        return (sys.modules[__name__].explode, ())


def test_a_cifar10_pickle_cannot_run_code(tmp_path):
    write_cifar(tmp_path / "c", "python")
    for bad in (
        pickle.dumps({"data": Evil(), "labels": []}),
        pickle.dumps(Evil()),
        b"cos\nsystem\n(S'true'\ntR.",
        b"",
        b"\x80",
    ):
        (tmp_path / "c" / "test_batch").write_bytes(bad)
        with pytest.raises(DataError, match="not a CIFAR-10 batch as published"):
            open_source(f"cifar10={tmp_path / 'c'}")
    assert RAN == []


def test_a_cifar10_pickle_cannot_forge_addresses_of_objects(tmp_path):
    """numpy's dtypes take a state from a pickle: one that hides its objects, and arrays read addresses from the file."""

    def text(value):
        return b"U" + bytes([len(value)]) + value

    def number(value):
        return b"J" + struct.pack("<i", value)

    objects = b"cnumpy\ndtype\n(" + text(b"O") + b"tR"
    record = b"cnumpy\ndtype\n(](" + text(b"a") + text(b"O") + b"tatR"
    fields = b"}" + text(b"a") + b"(" + objects + number(0) + b"ts"
    forged = (
        record + b"(" + number(3) + text(b"|") + b"N(" + text(b"a") + b"t" + fields + number(8) * 2 + number(0) + b"tb"
    )
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00t" + text(b"b") + b"tR"
    array += b"(K\x01(K\x01t" + forged + b"\x89" + text(b"A" * 8) + b"tb"
    write_cifar(tmp_path / "c", "python")
    for item in (forged, array, objects):
        labels = text(b"labels") + item + b"s" + text(b"data") + b"]s."
        (tmp_path / "c" / "test_batch").write_bytes(b"\x80\x02}" + labels)
        with pytest.raises(DataError, match="not a CIFAR-10 batch as published"):
            open_source(f"cifar10={tmp_path / 'c'}")


def test_cifar10_pictures_are_decoded_like_all_others(tmp_path, monkeypatch):
    """Pillow recognises a format by its content: EPS would start ghostscript. And a small picture may hold many pixels."""
    write_cifar(tmp_path / "p", "png")
    monkeypatch.setenv("DRIFTCAL_MAX_IMAGE_PIXELS", "1000")
    with pytest.raises(DataError, match="at most 1,000 pixels"):
        open_source(f"cifar10={tmp_path / 'p'}")
    monkeypatch.delenv("DRIFTCAL_MAX_IMAGE_PIXELS")
    for labels in ("[" * 100_000, '{"a": 1}', "[1e999]", f"[{10**30}]"):
        (tmp_path / "p" / "test_lables.json").write_text(labels)
        with pytest.raises(DataError, match=r"test_lables\.json.*JSON list"):
            open_source(f"cifar10={tmp_path / 'p'}")
    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", lambda *_, **__: pytest.fail("ghostscript was started"))
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1024 7\n%%EndComments\nshowpage\n%%EOF\n"
    (tmp_path / "p" / "test_batch.png").write_bytes(eps)
    with pytest.raises(DataError, match="cannot be decoded"):
        open_source(f"cifar10={tmp_path / 'p'}")


def test_unusable_cifar10_folders_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"it holds none of them.* Fetch it"):
        open_source(f"cifar10={tmp_path}")
    write_cifar(tmp_path / "b", "binary")
    (tmp_path / "b" / "data_batch_3.bin").unlink()
    with pytest.raises(DataError, match=r"incomplete: 'data_batch_3\.bin' is missing"):
        open_source(f"cifar10={tmp_path / 'b'}", part="train")
    (tmp_path / "b" / "test_batch.bin").write_bytes(b"123")
    with pytest.raises(DataError, match="records of 3073 bytes; it has 3"):
        open_source(f"cifar10={tmp_path / 'b'}")
    write_cifar(tmp_path / "p", "png")
    (tmp_path / "p" / "test_lables.json").write_text("[1, 2")
    with pytest.raises(DataError, match=r"test_lables\.json"):
        open_source(f"cifar10={tmp_path / 'p'}")
    (tmp_path / "p" / "test_lables.json").write_text("[1, 2]")
    with pytest.raises(DataError, match="7 images and 2 labels"):
        open_source(f"cifar10={tmp_path / 'p'}")
    (tmp_path / "p" / "test_batch.png").write_bytes(b"\x89PNG")
    with pytest.raises(DataError, match="cannot be decoded"):
        open_source(f"cifar10={tmp_path / 'p'}")


def test_cifar10_c_as_published(tmp_path):
    home = tmp_path / "CIFAR-10-C"
    home.mkdir()
    corrupted = RNG.integers(0, 256, (5 * N, 32, 32, 3), np.uint8)
    np.save(home / "fog.npy", corrupted)
    np.save(home / "labels.npy", np.tile(LABELS[5], 5))
    assert cifar10_corruptions(tmp_path) == ["fog"]
    source = open_source(f"cifar10-c={tmp_path}?corruption=fog&severity=3")
    np.testing.assert_array_equal(source.inputs(), corrupted[2 * N : 3 * N] / np.float32(255))
    assert np.array_equal(source.labels, LABELS[5])
    assert source.name == "cifar10-c/fog/3"
    fingerprints = {open_source(f"cifar10-c={home}", corruption="fog", severity=s).fingerprint for s in range(1, 6)}
    assert len(fingerprints) == 5
    with pytest.raises(UnknownName, match="'fogg'; did you mean 'fog'"):
        open_source(f"cifar10-c={home}", corruption="fogg", severity=1)
    with pytest.raises(InputError, match=r"severity must be 1\.\.5"):
        open_source(f"cifar10-c={home}", corruption="fog", severity=6)
    with pytest.raises(InputError, match="corruption"):
        open_source(f"cifar10-c={home}")
    (home / "fog.npy").write_bytes((home / "fog.npy").read_bytes()[:300])
    with pytest.raises(DataError, match=r"fog\.npy' must be .*cut off"):
        open_source(f"cifar10-c={home}", corruption="fog", severity=1)
    np.save(home / "fog.npy", corrupted[:3])
    with pytest.raises(DataError, match="as many labels"):
        open_source(f"cifar10-c={home}", corruption="fog", severity=1)


# ImageNet

WNIDS = ["n01440764", "n01443537", "n02119789", "n07749582"]
CHALLENGE = {"n01440764": 3, "n01443537": 1, "n02119789": 2, "n07749582": 4}
TRUTH = ["n07749582", "n01443537", "n02119789", "n01440764", "n07749582"]
SYNSETS = "n02119789 kit fox, Vulpes macrotis\nn01440764 tench\nn01443537 goldfish\nn07749582 lemon\n"


def val_name(number):
    return f"ILSVRC2012_val_{number + 1:08d}.JPEG"


def write_flat_folder(root):
    for number in range(5):
        save_image(root / val_name(number), plain_image(50 * number, (30, 40)))


def check_imagenet(source):
    assert source.class_names == ("tench", "goldfish", "kit fox, Vulpes macrotis", "lemon")
    assert source.labels.tolist() == [WNIDS.index(wnid) for wnid in TRUTH]
    inputs = source.inputs()
    assert inputs.shape == (5, 16, 16, 3)
    np.testing.assert_allclose(inputs[:, 8, 8, 0] * 255, np.arange(5) * 50, atol=2)


def test_imagenet_in_every_published_style(tmp_path):
    tree = tmp_path / "tree"
    for number, wnid in enumerate(TRUTH):
        save_image(tree / "val" / wnid / val_name(number), plain_image(50 * number, (30, 40)))
    (tree / "synset_words.txt").write_text(SYNSETS)
    check_imagenet(open_source(f"imagenet={tree}", size=16))

    table = tmp_path / "table"
    write_flat_folder(table)
    (table / "labels.csv").write_text(
        "file,label\n" + "".join(f"{val_name(n)},{WNIDS.index(w)}\n" for n, w in enumerate(TRUTH))
    )
    (table / "LOC_synset_mapping.txt").write_text(SYNSETS)
    check_imagenet(open_source(f"imagenet={table}", size=16))

    kaggle = tmp_path / "kaggle"
    write_flat_folder(kaggle / "val")
    rows = "".join(f"{val_name(n)[:-5]},{w} 10 20 30 40 {w} 1 2 3 4\n" for n, w in enumerate(TRUTH))
    (kaggle / "LOC_val_solution.csv").write_text("ImageId,PredictionString\n" + rows)
    (kaggle / "LOC_synset_mapping.txt").write_text(SYNSETS)
    check_imagenet(open_source(f"imagenet={kaggle}", size=16))

    caffe = tmp_path / "caffe"
    write_flat_folder(caffe)
    (caffe / "val.txt").write_text("".join(f"{val_name(n)} {WNIDS.index(w)}\n" for n, w in enumerate(TRUTH)))
    index = {
        str(n): [w, line.partition(" ")[2]]
        for n, (w, line) in enumerate(zip(WNIDS, sorted(SYNSETS.splitlines()), strict=True))
    }
    (caffe / "imagenet_class_index.json").write_text(json.dumps(index))
    check_imagenet(open_source(f"imagenet={caffe}", size=16))


@pytest.mark.parametrize("kit", ["meta.mat", "map_clsloc.txt"])
def test_imagenet_with_the_numbers_of_the_challenge(tmp_path, kit):
    root = tmp_path / "images"
    write_flat_folder(root)
    truth = tmp_path / "ILSVRC2012_validation_ground_truth.txt"
    truth.write_text("".join(f"{CHALLENGE[wnid]}\n" for wnid in TRUTH))
    with pytest.raises(DataError, match=r"challenge's own order.*meta\.mat"):
        open_source(f"imagenet={root}", size=16)
    words = {line.partition(" ")[0]: line.partition(" ")[2] for line in SYNSETS.splitlines()}
    if kit == "meta.mat":
        from scipy.io import savemat

        fields = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("num_children", "O")]
        rows = [(CHALLENGE[w], w, words[w], 0) for w in WNIDS] + [(1001, "n00001740", "entity", 4)]
        savemat(tmp_path / kit, {"synsets": np.array(rows, dtype=fields)})
    else:
        (tmp_path / kit).write_text("".join(f"{w} {CHALLENGE[w]} {words[w]}\n" for w in WNIDS))
    check_imagenet(open_source(f"imagenet={root}", size=16))
    truth.write_text("1\n2\n")
    with pytest.raises(DataError, match="2 labels for 5 images"):
        open_source(f"imagenet={root}", size=16)
    truth.write_text("1\n2\n3\n4\n9\n")
    with pytest.raises(DataError, match="class number 9"):
        open_source(f"imagenet={root}", size=16)


def test_unusable_imagenet_folders_are_refused(tmp_path):
    write_flat_folder(tmp_path / "bare")
    with pytest.raises(DataError, match="Name it with labels=FILE"):
        open_source(f"imagenet={tmp_path / 'bare'}")
    (tmp_path / "short.txt").write_text(f"{val_name(0)} 3\n")
    with pytest.raises(DataError, match="has no line for image 'ILSVRC2012_val_00000002"):
        open_source(f"imagenet={tmp_path / 'bare'}", labels=tmp_path / "short.txt")
    (tmp_path / "odd.txt").write_text("".join(f"{val_name(n)} lemon\n" for n in range(5)))
    with pytest.raises(DataError, match="column from 0 or a WordNet id"):
        open_source(f"imagenet={tmp_path / 'bare'}", labels=tmp_path / "odd.txt")
    for number, wnid in enumerate(TRUTH):
        save_image(tmp_path / "tree" / wnid / val_name(number), plain_image(50 * number, (30, 40)))
    with pytest.raises(DataError, match=r"4 of 1000 class folders.*synsets=FILE"):
        open_source(f"imagenet={tmp_path / 'tree'}")
    (tmp_path / "s.txt").write_text("kit fox\n")
    with pytest.raises(DataError, match="must list WordNet ids"):
        open_source(f"imagenet={tmp_path / 'tree'}", synsets=tmp_path / "s.txt")
    (tmp_path / "s.txt").write_text("n01440764 tench\n")
    with pytest.raises(DataError, match="not among the 1 classes of the synset file"):
        open_source(f"imagenet={tmp_path / 'tree'}", synsets=tmp_path / "s.txt")


def test_damaged_files_beside_published_data_give_an_error_of_ours(tmp_path):
    write_flat_folder(tmp_path / "a" / "flat")
    nested = "[" * 100_000
    for name, content in (
        ("imagenet_class_index.json", nested),
        ("imagenet_class_index.json", '{"0": ["n00000000", "a"], "1": [5, "b"]}'),
        ("meta.mat", "MATLAB 7.3 MAT-file"),
        ("meta.mat", "\0" * 200),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(DataError, match=f"{name}' must list WordNet ids"):
            open_source(f"imagenet={tmp_path / 'a' / 'flat'}", synsets=tmp_path / name)
    for label in ("x" * 200_000, "9" * 5000):
        lines = [f'{val_name(number)} "{label}"' for number in range(5)]
        (tmp_path / "labels.txt").write_text("\n".join(lines))
        with pytest.raises(DataError, match=r"labels\.txt"):
            open_source(f"imagenet={tmp_path / 'a' / 'flat'}", labels=tmp_path / "labels.txt")
    root = write_objectnet(tmp_path / "objectnet")
    for content in (nested, '{"Alarm clock": ["lemon"]}', '{"Alarm clock": 3}'):
        (root / "mappings" / "objectnet_to_imagenet_1k.json").write_text(content)
        with pytest.raises(DataError, match="objectnet_to_imagenet_1k"):
            open_source(f"objectnet={root}")
    folder = tmp_path / "folder"
    for name in "ab":
        (folder / name).mkdir(parents=True)
        save_image(folder / name / "0.png", plain_image(9))
    (tmp_path / "groups.csv").write_text("a/0.png," + "x" * 200_000)
    with pytest.raises(DataError, match="groups must be a CSV file"):
        open_source(folder, groups=tmp_path / "groups.csv")


def test_imagenet_c_has_the_samples_of_imagenet(tmp_path):
    for number, wnid in enumerate(TRUTH):
        save_image(tmp_path / "val" / wnid / val_name(number), plain_image(50 * number, (24, 24)))
        save_image(
            tmp_path / "c" / "noise" / "shot_noise" / "2" / wnid / val_name(number), plain_image(50 * number, (24, 24))
        )
    assert list(imagenet_corruptions(tmp_path / "c")) == ["shot_noise"]
    names = ["a", "b", "c", "d"]
    clean = open_source(f"imagenet={tmp_path / 'val'}", class_names=names, size=24)
    shifted = open_source(
        f"imagenet-c={tmp_path / 'c'}", corruption="shot_noise", severity=2, class_names=names, size=24
    )
    assert np.array_equal(clean.labels, shifted.labels)
    np.testing.assert_allclose(clean.inputs(), shifted.inputs(), atol=0.02)
    with pytest.raises(DataError, match="severity 3 of shot_noise"):
        open_source(f"imagenet-c={tmp_path / 'c'}", corruption="shot_noise", severity=3, class_names=names)
    with pytest.raises(UnknownName, match="'shot_nois'; did you mean 'shot_noise'"):
        open_source(f"imagenet-c={tmp_path / 'c'}", corruption="shot_nois", severity=2)


# ObjectNet


def write_objectnet(root):
    bordered = np.full((14, 14, 3), (255, 0, 0), np.uint8)
    for number, folder in enumerate(["alarm_clock", "bath_towel", "lemon"]):
        for item in range(2):
            bordered[2:-2, 2:-2] = 60 * number + item
            save_image(root / "images" / folder / f"{item}.png", bordered)
    maps = root / "mappings"
    maps.mkdir()
    (maps / "folder_to_objectnet_label.json").write_text(
        json.dumps({"alarm_clock": "Alarm clock", "bath_towel": "Bath towel", "lemon": "Lemon", "zoo": "Zoo"})
    )
    (maps / "objectnet_to_imagenet_1k.json").write_text(
        json.dumps({"Alarm clock": "analog clock; digital clock", "Lemon": "lemon"})
    )
    (maps / "pytorch_to_imagenet_2012_id.json").write_text(json.dumps({"0": 2, "1": 0, "2": 1, "3": 3}))
    (maps / "imagenet_to_label_2012_v2").write_text("digital clock\ntench\nanalog clock\nlemon\n")
    return root


def test_objectnet_as_published(tmp_path):
    source = open_source(f"objectnet={write_objectnet(tmp_path)}", size=10)
    assert source.class_names == ("analog clock", "digital clock", "tench", "lemon")
    assert source.labels.tolist() == [0, 0, -1, -1, 3, 3]
    assert source.correct_outputs[0] == (0, 1)
    assert source.is_correct(np.array([0, 1, 1, 2, 3, 0])).tolist() == [True, True, False, False, True, False]
    inputs = source.inputs()
    assert inputs.shape == (6, 10, 10, 3)
    assert np.ptp(inputs, axis=(1, 2, 3)).max() == 0, "the red border is gone"
    assert len(source.labelled()) == 4
    assert set(source.unlabelled().groups) == {"bath_towel"}


def test_unusable_objectnet_folders_are_refused(tmp_path):
    root = write_objectnet(tmp_path / "objectnet-1.0")
    assert len(open_source(f"objectnet={tmp_path}", size=10)) == 6
    (root / "mappings" / "objectnet_to_imagenet_1k.json").write_text(json.dumps({"Lemon": "citrus"}))
    with pytest.raises(DataError, match="maps 'Lemon' to 'citrus'"):
        open_source(f"objectnet={root}")
    (root / "mappings" / "objectnet_to_imagenet_1k.json").write_text("[]")
    with pytest.raises(DataError, match="must be a JSON object"):
        open_source(f"objectnet={root}")
    (root / "mappings" / "objectnet_to_imagenet_1k.json").write_text(
        json.dumps({"Alarm clock": "lemon", "Lemon": "lemon"})
    )
    with pytest.raises(DataError, match="needs one of its own"):
        open_source(f"objectnet={root}")
    (root / "mappings" / "imagenet_to_label_2012_v2").write_text("one\n")
    with pytest.raises(DataError, match="do not fit each other"):
        open_source(f"objectnet={root}")


def test_objectnet_images_and_mappings_must_belong_together(tmp_path):
    root = write_objectnet(tmp_path)
    save_image(root / "images" / "unknown_class" / "0.png", plain_image(3))
    with pytest.raises(DataError, match="'unknown_class' of ObjectNet is not in folder_to_objectnet_label"):
        open_source(f"objectnet={root}")
