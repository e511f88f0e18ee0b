"""Figure 1, right: clean and shifted images with the confidence of each calibrator."""

from __future__ import annotations

import numpy as np

from driftcal.paper.calibrator_names import PAPER_METHODS, label, with_suffixes
from driftcal.paper.captions import method_legend
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiment_result import ExperimentResult
from driftcal.paper.figures.figure_data import Picture, Pictures
from driftcal.paper.setups.setup import Setup
from driftcal.pipeline.collecting.conditions import table_levels
from driftcal.report.table import Table, Value
from driftcal.shifts.shift import Shift
from driftcal.types import Indices

#: Images per network.
_N_IMAGES = 3
#: Shifts that occur in practice. If a suite has none of them, its first shift is used.
_PREFERRED_SHIFTS = ("rot_right", "fog")


def examples(context: ExperimentContext) -> ExperimentResult:
    """Images, one per class, that are classified correctly without and incorrectly with a shift."""
    rows: list[dict[str, Value]] = []
    figures = []
    for setup in context.setups:
        shift, level = _chosen_shift(setup)
        positions = _choose_images(context, setup, shift, level)
        pictures = [[_picture(context, setup, shift, k, position) for k in (0, level)] for position in positions]
        for position, row_of_pictures in zip(positions, pictures, strict=True):
            for picture in row_of_pictures:
                rows += [
                    {
                        "network": setup.label,
                        "image": int(position),
                        "shift": picture.heading,
                        "true_class": picture.true_class,
                        "calibrator": name,
                        "predicted": predicted,
                        "confidence": confidence,
                    }
                    for name, (predicted, confidence) in picture.predictions.items()
                ]
        figures.append(_figure(setup, pictures))
    columns = {
        "network": "Network", "image": "Image", "shift": "Shift", "true_class": "True class", "calibrator": "Calibrator",
        "predicted": "Predicted class", "confidence": "Confidence",
    }  # fmt: skip
    table = Table("examples", "Images and the predictions of each calibrator", columns, rows)
    return ExperimentResult("examples", "Examples", [table], figures)


def _figure(setup: Setup, pictures: list[list[Picture]]) -> Pictures:
    return Pictures(
        f"examples-{setup.name}",
        f"{setup.label}: the same images clean and shifted",
        "Left: a clean test image, which the model classifies correctly. Right: the same image shifted, which it does not. "
        "Bars are the confidence of each calibrator; they are grey, with the predicted class, if the prediction is incorrect: then "
        f"low confidence is better. -P: tuned on noise, the others on clean images. {method_legend(with_suffixes(PAPER_METHODS, ''))}",
        pictures,
    )


def shift_label(shift: Shift, level: float) -> str:
    """A shift and its level: ``rot_right 60°``, ``fog level 3``."""
    level_label = getattr(shift, "label", None)
    return f"{shift.name} {level_label(level) if level_label else f'level {level:g}'}"


def _chosen_shift(setup: Setup) -> tuple[Shift, int]:
    """A shift and the level at two thirds of its levels."""
    shift = next((s for s in setup.shifts if s.name in _PREFERRED_SHIFTS), setup.shifts[0])
    levels = table_levels(shift)
    return shift, levels[len(levels) * 2 // 3]


def _choose_images(context: ExperimentContext, setup: Setup, shift: Shift, level: int) -> Indices:
    """Positions in the test set of images that become incorrect, then of other images if these are too few."""
    collector = context.collector(setup, setup.test)
    labels = collector.labels
    clean, shifted = (collector.logits(shift, k).argmax(axis=1) for k in (0, level))
    newly_incorrect = np.flatnonzero((clean == labels) & (shifted != labels))
    others = np.setdiff1d(np.arange(len(labels)), newly_incorrect)
    order = np.concatenate([newly_incorrect, others])
    _, first_of_class = np.unique(labels[order], return_index=True)
    return order[np.sort(first_of_class)[:_N_IMAGES]].astype(np.int64)


def _picture(context: ExperimentContext, setup: Setup, shift: Shift, level: int, position: int) -> Picture:
    collector = context.collector(setup, setup.test)
    classes = setup.test.class_names
    index = setup.test.indices[position : position + 1]
    logits = collector.logits(shift, level)[position : position + 1]
    predictions = {}
    for candidate in context.candidates(setup, PAPER_METHODS):
        probs = candidate.calibrator.predict_proba(logits)[0]
        predictions[label(candidate.name)] = (classes[int(probs.argmax())], float(probs.max()))
    image = setup.test.inputs(index)
    if level:
        image = shift(image, level, seed=context.settings.seed, indices=index)
    heading = shift_label(shift, level) if level else "clean"
    return Picture(image[0], heading, classes[int(collector.labels[position])], predictions)
