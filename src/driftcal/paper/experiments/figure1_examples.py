"""A few images to look at: right and sure while clean, wrong when drifted, and how sure each calibrator is then."""

from __future__ import annotations

import numpy as np

from driftcal.paper.cases import Case
from driftcal.paper.experiments.captions import who_is_who
from driftcal.paper.experiments.experiment import label, with_suffix
from driftcal.paper.outcome import Outcome, Picture, Pictures, Table, Value
from driftcal.paper.workbench import PAPER, Workbench
from driftcal.shifts.shift import Shift
from driftcal.types import Array, Indices

_COUNT = 3
#: Drift as one meets it: a picture taken aslant, or in bad weather.
_PREFERRED = ("rot_right", "fog")


def show_examples(bench: Workbench) -> Outcome:
    """The first images, one per class, that are right while clean and wrong when drifted."""
    rows: list[dict[str, Value]] = []
    figures = []
    for case in bench.cases:
        shift, level = _drift(case)
        chosen = _choose(bench, case, shift, level)
        pictures = [[_picture(bench, case, shift, at, row) for at in (0, level)] for row in chosen]
        for number, (clean, drifted) in enumerate(pictures):
            for where, picture in (("clean", clean), (picture_name(shift, level), drifted)):
                for name, (answer, confidence) in picture.answers.items():
                    rows.append(
                        {
                            "network": case.label,
                            "image": int(chosen[number]),
                            "drift": where,
                            "truth": picture.truth,
                            "calibrator": name,
                            "answer": answer,
                            "confidence": confidence,
                        }
                    )
        figures.append(
            Pictures(
                f"examples-{case.name}",
                f"{case.label}: the same images clean and drifted",
                "Left: a clean test image, which the model recognises. Right: the same image drifted, which it does not. The bars "
                "are the confidence of each calibrator in its answer; grey with that answer where it is wrong, so short grey bars are "
                f"honest. -P: tuned on noise, the others on clean images. {who_is_who(with_suffix(PAPER, ''))}",
                pictures,
            )
        )
    columns = {
        "network": "Network", "image": "Image", "drift": "Drift", "truth": "Truth", "calibrator": "Calibrator", "answer": "Answer",
        "confidence": "Confidence",
    }  # fmt: skip
    return Outcome(
        "examples", "Examples", [Table("examples", "Images and what calibrators say of them", columns, rows)], figures
    )


def picture_name(shift: Shift, level: float) -> str:
    """A shift and its level in words: ``rot_right 60°``, ``fog level 3``."""
    words = getattr(shift, "label", None)
    return f"{shift.name} {words(level) if words else f'level {level:g}'}"


def _drift(case: Case) -> tuple[Shift, int]:
    shift = next((s for s in case.shifts if s.name in _PREFERRED), case.shifts[0])
    levels = shift.levels or (0,)
    return shift, levels[len(levels) * 2 // 3]


def _choose(bench: Workbench, case: Case, shift: Shift, level: int) -> Indices:
    """Rows of the test set; where too few fit, any others follow."""
    collector = bench.collector(case, case.test)
    labels = collector.labels
    clean, drifted = (collector.logits(shift, at).argmax(axis=1) for at in (0, level))
    fooled = np.flatnonzero((clean == labels) & (drifted != labels))
    rest = np.setdiff1d(np.arange(len(labels)), fooled)
    order = np.concatenate([fooled, rest])
    firsts = {int(labels[row]): int(row) for row in order[::-1]}  # the first of each class, since later ones overwrite
    ranked = sorted(firsts.values(), key=lambda row: int(np.flatnonzero(order == row)[0]))
    return np.array(ranked[:_COUNT], np.int64)


def _picture(bench: Workbench, case: Case, shift: Shift, level: int, row: int) -> Picture:
    collector = bench.collector(case, case.test)
    names = case.test.class_names
    position = case.test.indices[row : row + 1]
    image: Array = case.test.inputs(position)
    logits = collector.logits(shift, level)[row : row + 1]
    answers = {}
    for candidate in bench.candidates(case, PAPER):
        probs = candidate.calibrator.predict_proba(logits)[0]
        answers[label(candidate.name)] = (names[int(probs.argmax())], float(probs.max()))
    shown = shift(image, level, seed=bench.seed, indices=position)[0] if level else image[0]
    truth = names[int(collector.labels[row])]
    return Picture(shown, "clean" if not level else picture_name(shift, level), truth, answers)
