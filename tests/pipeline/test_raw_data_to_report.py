"""From what users have to a report, with the real packages: tune, evaluate, save, load, report."""

import numpy as np
import pandas as pd
import pytest

import driftcal
from tests.helpers import tables
from tests.helpers.tables import FRAME, TEST, THREE, VALIDATION, catboost_frame

SELECTION = driftcal.Selection(candidates=["ts", "irm"])


def check_from_tuning_to_report(model, validation, test, few_inputs, tmp_path, suite=None):
    """Returns the calibrated model and the page."""
    calibrated = driftcal.tune(model, *validation, method=SELECTION, n_levels=3)
    results = driftcal.evaluate(calibrated, *test, n_resamples=0, suite=suite)
    assert {line.calibrator for line in results.summary()} >= {"base", "ts"}
    path = calibrated.save(tmp_path / "cal.safetensors")
    loaded = driftcal.CalibratedModel.load(path, model)
    np.testing.assert_array_equal(loaded.predict_proba(few_inputs), calibrated.predict_proba(few_inputs))
    page = driftcal.write_report(results, tmp_path / "report.html")
    return calibrated, page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "make",
    [
        tables.lightgbm_classifier, tables.lightgbm_native, tables.xgboost_classifier, tables.xgboost_native,
        tables.catboost_classifier, tables.catboost_native, tables.pipeline,
    ],
    ids=lambda make: make.__name__,
)  # fmt: skip
def test_tables(make, tmp_path):
    frame = FRAME if "lightgbm" in make.__name__ or "xgboost" in make.__name__ else catboost_frame(FRAME)
    before = frame.copy()
    validation, test = ((frame[part], THREE[part]) for part in (VALIDATION, TEST))
    calibrated, page = check_from_tuning_to_report(make(), validation, test, frame[:5], tmp_path)
    pd.testing.assert_frame_equal(frame, before)
    assert calibrated.perturbation["shift"] == "tabular_noise"
    assert "feature_shuffled" in page
    assert "image" not in calibrated.explanation


def test_a_table_in_a_file(tmp_path):
    """A CSV file has no categories: columns of text become some."""
    model = tables.lightgbm_native()
    path = tmp_path / "trees.txt"
    model.save_model(path)
    for name, write in (("a.csv", pd.DataFrame.to_csv), ("a.parquet", pd.DataFrame.to_parquet)):
        write(FRAME.assign(grade=np.array(["low", "mid", "high"])[THREE])[VALIDATION], tmp_path / name, index=False)
        source = driftcal.open_source(f"{tmp_path / name}?label=grade&class_names=low,mid,high")
        assert str(source.inputs()["shop"].dtype) == "category"
        np.testing.assert_array_equal(source.labels, THREE[VALIDATION])
        opened = driftcal.open_model(path, class_names=["low", "mid", "high"])
        np.testing.assert_array_equal(
            opened.logits(source.inputs()), driftcal.open_model(model).logits(FRAME[VALIDATION])
        )
        calibrated = driftcal.tune(opened, source, method="ts", n_levels=3)
        assert calibrated.class_names == ("low", "mid", "high")


LABELS = np.arange(240) % 3
IMAGES = np.clip(
    np.random.default_rng(2).normal(0.2 + 0.25 * LABELS[:, None, None, None], 0.25, (240, 1, 8, 8)), 0, 1
).astype(np.float32)


@pytest.fixture(scope="module")
def network():
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    optimiser = torch.optim.Adam(net.parameters(), 0.05)
    for _ in range(60):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(torch.tensor(IMAGES)), torch.tensor(LABELS)).backward()
        optimiser.step()
    return net


def test_a_data_loader(network, tmp_path):
    import torch
    from torch.utils.data import DataLoader, Subset, TensorDataset

    data = TensorDataset(torch.tensor(IMAGES), torch.tensor(LABELS))
    validation = DataLoader(Subset(data, range(140)), batch_size=32, shuffle=True)
    test = DataLoader(Subset(data, range(140, 240)), batch_size=32)
    few = IMAGES[:5].transpose(0, 2, 3, 1)
    calibrated, page = check_from_tuning_to_report(network, (validation,), (test,), few, tmp_path)
    assert calibrated.metadata["validation"]["samples"] == 140
    in_arrays = driftcal.tune(network, IMAGES[:140].transpose(0, 2, 3, 1), LABELS[:140], method=SELECTION, n_levels=3)
    np.testing.assert_array_equal(in_arrays.predict_proba(few), calibrated.predict_proba(few))
    assert "affine" in page


def test_a_hugging_face_data_set(network, tmp_path):
    import datasets

    pixels = (IMAGES[:, 0] * 255).astype(np.uint8)
    features = datasets.Features({"picture": datasets.Image(), "kind": datasets.ClassLabel(names=["a", "b", "c"])})
    data = datasets.Dataset.from_dict({"picture": list(pixels), "kind": LABELS.tolist()}, features=features)
    validation, test = data.select(range(140)), data.select(range(140, 240))
    few = pixels[:5, ..., None]
    calibrated, _ = check_from_tuning_to_report(network, (validation,), (test,), few, tmp_path)
    assert calibrated.class_names == ("a", "b", "c")
    assert set(calibrated.predict(few)) <= {"a", "b", "c"}


def test_a_transformers_image_classifier(tmp_path):
    """A checkpoint folder as users have it: model and image processor by their Auto classes, images as uint8."""
    import torch
    import transformers
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    torch.manual_seed(0)
    names = dict(enumerate(("ant", "bee", "cat")))
    config = transformers.ViTConfig(
        image_size=16, patch_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        num_labels=3, id2label=names, label2id={name: number for number, name in names.items()},
    )  # fmt: skip
    transformers.AutoModelForImageClassification.from_config(config).save_pretrained(tmp_path / "checkpoint")
    side = {"height": 16, "width": 16}
    ViTImageProcessorPil(size=side, image_mean=[0.5, 0.4, 0.3], image_std=[0.2] * 3).save_pretrained(
        tmp_path / "checkpoint"
    )
    model = transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "checkpoint")
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "checkpoint", backend="pil")

    images = np.random.default_rng(0).integers(0, 256, (150, 16, 16, 3), dtype=np.uint8)

    def outputs():
        with torch.inference_mode():
            return model(**processor(list(images), return_tensors="pt")).logits.numpy()

    head, z = model.classifier, outputs()
    with torch.no_grad():  # random weights give nearly the same class to all images
        factor = torch.tensor(2 / z.std(axis=0))
        head.bias.copy_((head.bias - torch.tensor(z.mean(axis=0))) * factor)
        head.weight.mul_(factor[:, None])
    expected = outputs()
    classes = (expected + np.random.default_rng(1).gumbel(size=expected.shape)).argmax(axis=1)
    labels = np.array(list(names.values()))[classes]
    opened = driftcal.open_model(model, preprocessing=processor)
    np.testing.assert_allclose(opened.logits(images[:20] / np.float32(255)), expected[:20], atol=1e-5)
    validation, test = (images[:110], labels[:110]), (images[110:], labels[110:])
    calibrated = driftcal.tune(opened, *validation, method="ts", n_levels=3)
    assert calibrated.class_names == ("ant", "bee", "cat")
    suite = driftcal.shifts.Suite("two", "two affine shifts", driftcal.get_suite("affine").shifts[:2])
    results = driftcal.evaluate(calibrated, *test, n_resamples=0, suite=suite)
    loaded = driftcal.CalibratedModel.load(
        calibrated.save(tmp_path / "cal.safetensors"), model
    )  # with the stored steps
    np.testing.assert_array_equal(loaded.predict_proba(images[:5]), calibrated.predict_proba(images[:5]))
    assert "turned left" in driftcal.write_report(results, tmp_path / "report.html").read_text(encoding="utf-8")
