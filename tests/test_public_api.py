"""The public names keep one style: few parameters, one order of arguments, one word for each thing, numpydoc, short reprs."""

import inspect
import re

import numpy as np
import pytest

import driftcal

RNG = np.random.default_rng(0)
LOGITS = 3 * RNG.normal(size=(200, 3))
Y = np.where(RNG.random(200) < 0.6, LOGITS.argmax(axis=1), RNG.integers(0, 3, 200))

#: Driftcal makes these; their text describes the fields.
RESULTS = {
    "BrierDecomposition",
    "DriftReference",
    "Evaluation",
    "OnnxExport",
    "Reliability",
    "Results",
    "Statistics",
    "Threshold",
}
#: Words that version 0.1 used for what has another name now.
OTHER_WORDS = {"seed", "bins", "n_boot", "resamples", "window_length", "n_rows", "y_prob", "y_pred"}


def public_callables():
    """Every public class and function, and the public methods of the classes, once each."""
    seen = {}
    for module in (driftcal, driftcal.metrics, driftcal.export, driftcal.testing):
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing) or inspect.isclass(thing):
                seen[thing] = name
    for thing, name in list(seen.items()):
        for attribute, value in vars(thing).items() if inspect.isclass(thing) else ():
            function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if inspect.isfunction(function) and not attribute.startswith("_"):
                seen.setdefault(function, f"{name}.{attribute}")
    return [pytest.param(name, thing, id=name) for thing, name in seen.items()]


def parameters(thing):
    names = list(inspect.signature(thing).parameters)
    return [name for name in names if name not in ("self", "cls")]


def test_tune_has_at_most_ten_parameters():
    assert len(parameters(driftcal.tune)) <= 10


@pytest.mark.parametrize(
    "name", [name for name in driftcal.metrics.__all__ if name[0].islower() and name != "difference"]
)
def test_metrics_take_labels_first(name):
    first, second, *others = inspect.signature(getattr(driftcal.metrics, name)).parameters.values()
    assert (first.name, second.name) in [("y_true", "probabilities"), ("y_true", "scores")]
    assert {other.kind for other in others} == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize(("name", "thing"), public_callables())
def test_parameters_have_one_word_each(name, thing):
    assert set(parameters(thing)) & OTHER_WORDS == set(), name


@pytest.mark.parametrize(("name", "thing"), public_callables())
def test_more_than_three_parameters_are_listed_as_numpydoc(name, thing):
    names = parameters(thing)
    if len(names) <= 3 or name in RESULTS:
        return
    if name.split(".")[0] in ("DriftReference", "Monitor"):
        return  # their texts are about to be rewritten
    listed = (inspect.getdoc(thing) or "").partition("Parameters\n----------\n")[2]
    assert listed, f"{name} needs a list of parameters"
    documented = {
        word.strip(" *") for line in re.findall(r"^([*\w][^\n:]*)", listed, re.MULTILINE) for word in line.split(",")
    }
    assert set(names) <= documented, f"{name}: {sorted(set(names) - documented)}"


def shown():
    calibrator = driftcal.TemperatureScaling().fit(LOGITS, Y)
    probabilities = calibrator.predict_proba(LOGITS)
    yield calibrator
    yield calibrator.fit_report_
    yield driftcal.LabelledLogits(LOGITS, Y)
    yield driftcal.metrics.Statistics.of(Y, LOGITS)
    yield driftcal.metrics.prepare_reliability(Y, probabilities)
    yield driftcal.recalibrate(calibrator, LOGITS, Y)
    yield driftcal.LayerFeatures(["conv1"], np.zeros((500, 8, 8, 3)))
    yield driftcal.open_engine()
    yield driftcal.get_suite("imagenet-c")
    yield driftcal.Run()
    yield driftcal.Selection()
    yield driftcal.open_source("digits")
    yield driftcal.open_model(lambda x: x, name="identity")
    yield driftcal.export.to_onnx(calibrator)


def test_reprs_are_short(tmp_path):
    for thing in [*shown(), driftcal.LogitCache(tmp_path)]:
        assert len(repr(thing)) < 250, repr(thing)
        assert "object at 0x" not in repr(thing)
        assert "array(" not in repr(thing)


def test_scores_with_one_column_are_refused_as_labelled_logits():
    with pytest.raises(driftcal.errors.InputError, match="need score_type"):
        driftcal.LabelledLogits([0.2, 0.7], [0, 1])
