"""torch loaders and data sets, and Hugging Face data sets, as sources: order, shapes, memory, and what is refused."""

import datasets
import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)  # fmt: skip

from driftcal import open_source, tune
from driftcal.errors import DataError, ImagesError, InputError, LabelsError, SuspiciousInputWarning, UnknownName

RNG = np.random.default_rng(0)
N = 150
IMAGES = RNG.random((N, 3, 8, 8)).astype(np.float32)
LABELS = RNG.integers(0, 3, N)
DATA = TensorDataset(torch.tensor(IMAGES), torch.tensor(LABELS))
WANTED = open_source((IMAGES.transpose(0, 2, 3, 1), LABELS))

PIXELS = (IMAGES.transpose(0, 2, 3, 1) * 255).astype(np.uint8)
FEATURES = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["ant", "bee", "cow"])})
PICTURES = datasets.Dataset.from_dict({"image": list(PIXELS), "label": LABELS.tolist()}, features=FEATURES)


class Samples(Dataset):
    """Dicts, with names for the classes; counts how often samples were read."""

    classes = ["ant", "bee", "cow"]

    def __init__(self):
        self.reads = 0

    def __len__(self):
        return N

    def __getitem__(self, index):
        self.reads += 1
        return {"id": index, "image": IMAGES[index].transpose(1, 2, 0), "target": int(LABELS[index])}


class Stream(IterableDataset):
    def __init__(self, shuffle=False):
        self.shuffle = shuffle

    def __iter__(self):
        order = torch.randperm(N) if self.shuffle else range(N)
        return (DATA[int(i)] for i in order)


def assert_same(source):
    np.testing.assert_array_equal(source.inputs(), WANTED.inputs())
    np.testing.assert_array_equal(source.labels, LABELS)


@pytest.mark.parametrize(
    "data",
    [
        DATA, DataLoader(DATA, batch_size=32), DataLoader(DATA, batch_size=32, shuffle=True, drop_last=True), Samples(),
        DataLoader(Samples(), batch_size=7), Stream(), DataLoader(Stream(), batch_size=11),
        DataLoader(DATA, batch_sampler=BatchSampler(range(N), 10, False)),
        DataLoader(DATA, batch_size=9, collate_fn=lambda pairs: [torch.stack([p[0] for p in pairs]), [int(p[1]) for p in pairs]]),
    ],
    ids=["data set", "loader", "shuffled", "dicts", "loader of dicts", "stream", "loader of a stream", "batch sampler", "collate"],
)  # fmt: skip
def test_samples_come_in_the_order_of_the_data_set(data):
    source = open_source(data)
    assert_same(source)
    assert source.content() == open_source(data).content()
    assert source.subset([5, 3]).inputs().tobytes() == WANTED.inputs(np.array([5, 3])).tobytes()


def test_samples_are_read_when_they_are_needed():
    data = Samples()
    source = open_source(data)
    assert data.reads <= N + 4, "each sample once, and the first ones twice"
    assert source.class_names == ("ant", "bee", "cow")
    before = data.reads
    source.inputs(np.arange(6))
    assert data.reads == before + 6


def test_a_loader_of_some_samples_keeps_their_order():
    some = [9, 2, 77, 4]
    source = open_source(DataLoader(DATA, batch_size=2, sampler=SubsetRandomSampler(some)))
    np.testing.assert_array_equal(source.labels, LABELS[some])
    np.testing.assert_array_equal(source.inputs(), WANTED.inputs(np.array(some)))


def test_a_normalisation_is_undone():
    normalised = TensorDataset((torch.tensor(IMAGES) - 0.5) / 0.25, torch.tensor(LABELS))
    with pytest.raises(ImagesError, match=r"open_source\(data, mean=\.\.\., std=\.\.\.\)"):
        open_source(normalised)
    source = open_source(normalised, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    np.testing.assert_allclose(source.inputs(), WANTED.inputs(), atol=1e-6)


class Augmented(Samples):
    def __getitem__(self, index):
        return torch.rand(3, 8, 8), 1


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (Augmented(), DataError, "same sample each time; its first samples differ.*without random crops"),
        (DataLoader(Stream(shuffle=True), batch_size=5), DataError, "same order each time.*without shuffling"),
        (DataLoader(DATA, sampler=WeightedRandomSampler([1.0] * N, N)), DataError, r"WeightedRandomSampler.*Pass loader\.dataset"),
        (DataLoader(DATA, batch_size=None), DataError, "batch_size=None"),
        (TensorDataset(torch.tensor(IMAGES), torch.tensor(LABELS), torch.tensor(LABELS)), DataError, r"inputs=0, label=1"),
        (TensorDataset(torch.tensor(IMAGES)), DataError, "it has 1 items"),
        (TensorDataset(torch.zeros(4, 3, 2, 8, 8), torch.zeros(4)), ImagesError, "images or features"),
    ],
    ids=["augmented", "shuffled stream", "weighted", "no batches", "three items", "no labels", "volumes"],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(data, error, message):
    with pytest.raises(error, match=message):
        open_source(data)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.tensor([[1, 1, 0], [0, 1, 0]] * 3), "Multi-label data is not supported"),
        (torch.rand(6, 3), "it holds other values"),
        (torch.zeros(6, 8, 8, dtype=torch.int64), r"one class per sample; .*\(6, 8, 8\).*segmentation"),
    ],
    ids=["several classes", "boxes or mixed labels", "masks"],
)
def test_labels_that_are_not_one_class_per_sample_are_refused(labels, message):
    """Their largest number, or the first one, must not be taken for a class."""
    data = TensorDataset(torch.tensor(IMAGES[:6]), labels)
    for opened in (data, DataLoader(data, batch_size=4)):
        with pytest.raises(LabelsError, match=message):
            open_source(opened)


def test_one_hot_labels_and_columns_of_labels_are_read():
    for labels in (torch.eye(3)[torch.tensor(LABELS)], torch.tensor(LABELS)[:, None]):
        np.testing.assert_array_equal(open_source(TensorDataset(torch.tensor(IMAGES), labels)).labels, LABELS)


def test_a_collate_function_that_leaves_samples_out_is_refused():
    """The labels of the following batches would belong to other samples."""

    def without_dark(pairs):
        bright = [pair for pair in pairs if pair[0].mean() > 0.5]
        return torch.stack([pair[0] for pair in bright]), torch.tensor([int(pair[1]) for pair in bright])

    with pytest.raises(
        DataError, match=r"one sample per index; for 64 indices it holds \d+\. Leave samples out of the data set"
    ):
        open_source(DataLoader(DATA, batch_size=16, collate_fn=without_dark))


class Digits(TensorDataset):
    """torchvision's ImageFolder sorts the names of folders as text: column 2 of "0" to "11" is "10"."""

    classes = sorted(map(str, range(12)))


@pytest.mark.parametrize("kind", ["torch", "stream", "pictures", "table", "texts", "transformed"])
def test_labels_of_a_data_set_are_columns_also_if_its_names_are_numbers(kind):
    labels = np.arange(12)
    names = datasets.ClassLabel(names=Digits.classes)
    columns = {
        "pictures": ("image", list(PIXELS[:12]), datasets.Image()),
        "table": ("size", labels / 2, datasets.Value("float64")),
        "texts": ("text", ["a"] * 12, datasets.Value("string")),
        "transformed": ("x", [[0.5, 0.1]] * 12, datasets.List(datasets.Value("float32"))),
    }
    if kind == "torch":
        data = Digits(torch.tensor(IMAGES[:12]), torch.tensor(labels))
    else:
        column, values, feature = columns["pictures" if kind == "stream" else kind]
        features = datasets.Features({column: feature, "label": names})
        data = datasets.Dataset.from_dict({column: list(values), "label": labels}, features=features)
        data = data.to_iterable_dataset() if kind == "stream" else data
        data = data.with_transform(dict) if kind == "transformed" else data
    source = open_source(data)
    assert source.class_names == tuple(Digits.classes)
    np.testing.assert_array_equal(source.labels, labels)
    in_order = open_source(data, class_names=[str(number) for number in range(13)])
    assert [in_order.class_names[label] for label in in_order.labels] == Digits.classes
    other_names = open_source(data, class_names=list("abcdefghijkl"))
    assert (other_names.class_names[2], other_names.labels[2]) == ("c", 2)


def test_deep_pictures_of_data_sets_keep_their_depth(tmp_path):
    """Pillow's conversion to 8 bits clips them at 255."""
    deep = (IMAGES[:4, 0] * 65535).astype(np.uint16)
    for i, pixels in enumerate(deep):
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
    files = [str(tmp_path / f"{i}.png") for i in range(4)]
    rows = datasets.Dataset.from_dict({"image": files, "label": [0, 1, 0, 1]})
    in_memory = [(Image.fromarray(pixels), i % 2) for i, pixels in enumerate(deep)]
    for data in (rows.cast_column("image", datasets.Image()), Subset(in_memory, range(4))):
        source = open_source(data)
        assert source.input_shape == (8, 8, 3)
        np.testing.assert_allclose(source.inputs()[..., 1], deep / 65535, atol=1e-6)
    unknown = [(Image.fromarray(deep[0].astype(np.int32) * 4), 0), (Image.fromarray(deep[1].astype(np.int32)), 1)]
    with pytest.raises(DataError, match="image 'of the data set' must say how many bits its numbers have"):
        open_source(Subset(unknown, range(2)))


def test_data_sets_that_cannot_be_read_give_an_error_of_ours(tmp_path):
    class NoLength(Dataset):
        def __getitem__(self, index):
            return DATA[index]

    with pytest.raises(DataError, match="it has no __len__"):
        open_source(NoLength())
    with pytest.raises(InputError, match=r"must be dense.*to_dense"):
        open_source(Subset([(torch.eye(8).to_sparse(), 0)] * 2, range(2)))
    missing = datasets.Dataset.from_dict({"image": [str(tmp_path / "a.png")] * 2, "label": [0, 1]})
    with pytest.raises(DataError, match=r"dataset must give its samples.*a\.png"):
        open_source(missing.cast_column("image", datasets.Image()))
    with pytest.raises(DataError, match="column 'box' of dataset must hold one value per sample"):
        open_source(datasets.Dataset.from_dict({"box": [{"left": 1}] * 2, "label": [0, 1]}))


def test_options_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="unexpected keyword argument 'columns'"):
        open_source(DATA, columns=3)
    with pytest.raises(LabelsError, match="y must be left out: the TensorDataset holds the labels"):
        tune(lambda batch: batch, DATA, LABELS)
    with pytest.raises(InputError, match="inputs must name one of 'id', 'image', 'target'"):
        open_source(Samples(), inputs="pixels")
    with pytest.raises(InputError, match=r"label must name one of 'x', 'z'; none has a usual name.*label=\.\.\."):
        open_source(Subset([{"x": IMAGES[0], "z": 1}] * 2, range(2)))


def test_data_with_labels_are_no_inputs_of_predictions():
    """A loader became an array of one object: "they are object of shape ()"."""
    with pytest.warns(SuspiciousInputWarning, match="near chance"):
        calibrated = tune(lambda batch: batch.mean(axis=(1, 2)), open_source(DATA), method="ts", shift=None)
    for data in (DataLoader(DATA), DATA, PICTURES, open_source(DATA)):
        with pytest.raises(
            InputError, match=r"holds labels as well\. Pass its inputs: driftcal\.open_source\(data\)\.inputs\(\)"
        ):
            calibrated.predict_proba(data)
    assert calibrated.predict_proba(open_source(DATA).inputs()).shape == (N, 3)


@pytest.mark.parametrize("kind", ["array", "data set", "stream"])
def test_noise_on_whole_numbers_is_not_silent(kind):
    """They may be tokens or codes. Who says that they are none, or which are codes, is not asked."""
    codes = np.stack([3 * LABELS + RNG.integers(0, 4, N), RNG.integers(0, 9, N)], axis=1)
    pairs = list(zip(codes, LABELS.tolist(), strict=True))

    class Pairs(IterableDataset):
        def __iter__(self):
            return iter(pairs)

    given = {"array": (codes, LABELS), "data set": Subset(pairs, range(N)), "stream": Pairs()}[kind]

    def scores(batch):
        return -((batch[:, :1] - np.array([[1, 4, 7]])) ** 2) / 4

    def tuned(source, **options):
        return tune(scores, source, method="ts", n_levels=2, **options)

    with pytest.warns(SuspiciousInputWarning, match=r"whole numbers.*tabular_noise.*suite 'text'.*register_shift"):
        assert "whole numbers" in tuned(open_source(given)).explanation
    tuned(open_source(given), shift="tabular_noise")
    tuned(open_source(given, categorical=[1]))
    tuned(open_source(given), shift=None)
    tuned(open_source((codes.astype(float), LABELS)))


@pytest.mark.parametrize(
    "data",
    [PICTURES, PICTURES.with_format("torch"), PICTURES.to_iterable_dataset(), PICTURES.rename_columns({"image": "a", "label": "b"})],
    ids=["pictures", "torch format", "stream", "other names"],
)  # fmt: skip
def test_pictures_of_hugging_face(data):
    source = open_source(data)
    assert source.class_names == ("ant", "bee", "cow")
    np.testing.assert_array_equal(source.labels, LABELS)
    np.testing.assert_array_equal(source.inputs(), PIXELS / np.float32(255))


def test_transforms_of_hugging_face_are_applied():
    def channels_first(rows):
        pixels = [torch.tensor(np.asarray(image) / 255.0, dtype=torch.float32) for image in rows["image"]]
        return {"pixel_values": [p.permute(2, 0, 1) for p in pixels], "label": rows["label"]}

    source = open_source(PICTURES.with_transform(channels_first))
    np.testing.assert_allclose(source.inputs(), PIXELS / np.float32(255), atol=1e-6)
    assert source.class_names == ("ant", "bee", "cow")


def test_tables_and_vectors_of_hugging_face():
    rows = {"size": [1.5, 2.5, 3.5, 4.5], "shop": list("abab"), "label": [0, 1, 1, 0]}
    source = open_source(datasets.Dataset.from_dict(rows))
    assert source.inputs().dtypes.astype(str).to_dict() == {"size": "float64", "shop": "category"}
    assert source.labels.tolist() == [0, 1, 1, 0]
    vectors = datasets.Dataset.from_dict({"vector": [[1.0, 2.0], [3.0, 4.0]], "label": [0, 1]})
    assert open_source(vectors).inputs().tolist() == [[1, 2], [3, 4]]


def test_unclear_data_of_hugging_face_are_refused():
    for opened in (open_source, lambda data: tune(lambda batch: batch, data)):  # a DatasetDict is a dictionary as well
        with pytest.raises(DataError, match=r"one split.*Pass data\['train'\]"):
            opened(datasets.DatasetDict(train=PICTURES))
    with pytest.raises(LabelsError, match="column of labels of dataset must be named"):
        open_source(datasets.Dataset.from_dict({"a": [1.0], "b": [2]}))
    with pytest.raises(UnknownName, match="no column 'lable'"):
        open_source(PICTURES, label="lable")
    features = datasets.Features({**FEATURES, "image2": datasets.Image()})
    two = datasets.Dataset.from_dict({"image": [PIXELS[0]], "image2": [PIXELS[1]], "label": [0]}, features=features)
    with pytest.raises(DataError, match="'image', 'image2' could be it"):
        open_source(two)
    assert open_source(two, inputs="image2").input_shape == (8, 8, 3)
