"""Results as an evaluation records them, made from scikit-learn's digits: input of the report's tests."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from driftcal.calibrators import make_calibrator
from driftcal.metrics import evaluate
from driftcal.pipeline.evaluating.results import CLEAN_SAMPLES, POOLED, CalibratorInfo, ResultRow, Results, ShiftInfo
from driftcal.shifts import get_shift

HOSTILE = "<img src=x onerror=alert(1)>"
BREAKOUT = "</script><script>alert(2)</script><!--"
ODD_NAME = "a \"quoted\" 'file' name\nwith a new line & <b>tags</b> \u2028.onnx"

_LABELS = {"ts": "TS", "ets": "ETS", "irm": "IRM", "ir": "IR", "ts-ir": "TS-IR", "ps": "PS", "hb": "HB", "pbmc": "PBMC"}
_METRICS = ("ece", "accuracy", "calibration_gap", "entropy", "nll", "brier", "mce", "debiased_ece")


_METHODS, _SHIFTS, _LEVELS, _DRAWS = ("ts", "irm"), ("rot_right", "xyshift", "xyzoom"), (0, 2, 5, 9), 40


@functools.cache
def digits_results(*, grouped: bool = False) -> Results:
    """A small evaluation: methods with and without -P, on shifts and levels, by group when asked."""
    results = _evaluated()
    return results if grouped else replace(results, rows=tuple(row for row in results.rows if row.group is None))


@functools.cache
def _evaluated() -> Results:
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32).reshape(-1, 8, 8, 1)
    order = np.random.default_rng(0).permutation(len(labels))
    train, validation, test = np.split(order, [500, 1100])
    model = LogisticRegression(C=100, max_iter=3000).fit(images[train].reshape(len(train), -1), labels[train])

    def logits(part: Any, shift: str, level: float) -> Any:
        shifted = get_shift(shift)(images[part], level, seed=1, indices=part)
        return model.decision_function(shifted.reshape(len(part), -1))

    epsilons = np.linspace(0, 1, 6) ** 2
    level_logits = [logits(validation, "gaussian", float(e)) for e in epsilons]
    accuracies = [float((z.argmax(1) == labels[validation]).mean()) for z in level_logits]
    infos, fitted = [CalibratorInfo("base", "Base", "base", "nothing", True)], {"base": make_calibrator("base")}
    fitted["base"].fit(level_logits[0], labels[validation])
    for method in _METHODS:
        keeps = method in ("ts", "ets", "irm")
        fitted[method] = make_calibrator(method).fit(level_logits[0], labels[validation])
        fitted[f"{method}-p"] = make_calibrator(method).fit(
            np.concatenate(level_logits), np.tile(labels[validation], len(level_logits))
        )
        infos.append(CalibratorInfo(method, _LABELS[method], method, CLEAN_SAMPLES, keeps))
        infos.append(CalibratorInfo(f"{method}-p", f"{_LABELS[method]}-P", method, "gaussian", keeps))

    y = labels[test]
    groups = {None: np.ones(len(y), bool)} | {f"digit {k}": y == k for k in range(4)}
    rows = []
    for shift in _SHIFTS:
        shifted = {level: logits(test, shift, level) for level in _LEVELS}
        for info in infos:
            log_probs = {level: fitted[info.name].predict_log_proba(z) for level, z in shifted.items()}
            for group, members in groups.items():
                for level in (*_LEVELS, POOLED):
                    chosen = _LEVELS if level == POOLED else (level,)
                    stack = np.concatenate([log_probs[lv][members] for lv in chosen])
                    truth = np.tile(y[members], len(chosen))
                    rows.append(_row(info.name, shift, level, group, stack, truth, _DRAWS if group is None else 0))
    return Results(
        suite="affine",
        n_bins=15,
        calibrators=tuple(infos),
        shifts=tuple(ShiftInfo(name, _LEVELS, _level_labels(name, _LEVELS)) for name in _SHIFTS),
        rows=tuple(rows),
        perturbation={
            "shift": "gaussian",
            "levels": [
                {"epsilon": float(e), "target": float(t), "accuracy": a, "standard_error": (a * (1 - a) / 600) ** 0.5}
                for e, t, a in zip(
                    epsilons, np.linspace(accuracies[0], accuracies[-1], len(epsilons)), accuracies, strict=True
                )
            ],
            "passes": 41.0,
            "notes": ["Accuracy fell steadily with the noise."],
        },
        metadata={
            "title": "Digits under affine shifts",
            "seed": 0,
            "command": "driftcal evaluate digits.onnx irm.safetensors test.npz --suite affine --seed 0 -o run/",
            "model": {"name": "digits.onnx", "framework": "onnx", "fingerprint": "3f" * 32, "classes": 10},
            "data": {
                "validation": {"name": "val.npz", "samples": 600, "classes": 10, "fingerprint": "a1" * 32},
                "test": {"name": "test.npz", "samples": len(y), "classes": 10, "fingerprint": "b2" * 32},
            },
            "versions": {"driftcal": "0.1.0", "python": "3.11.9", "numpy": np.__version__},
            "method": f"{_METHODS[-1]}-p",
            "explanation": "IRM keeps every prediction and had the lowest error over the perturbation levels in cross-validation.",
            "class_names": [f"digit {k}" for k in range(10)],
        },
    )


def hostile_results() -> Results:
    """The small evaluation with names that try to be markup, script, formulas and LaTeX."""
    plain = digits_results()
    names = {"base": HOSTILE, "ts": BREAKOUT, "irm-p": '=HYPERLINK("http://x")', "rot_right": f"rot{HOSTILE}"}
    return replace(
        plain,
        calibrators=tuple(
            replace(c, name=names.get(c.name, c.name), label=names.get(c.name, c.label), warnings=(HOSTILE,))
            for c in plain.calibrators
        ),
        shifts=tuple(
            replace(s, name=names.get(s.name, s.name), labels=tuple(HOSTILE for _ in s.labels)) for s in plain.shifts
        ),
        rows=tuple(
            replace(
                r,
                calibrator=names.get(r.calibrator, r.calibrator),
                shift=names.get(r.shift, r.shift),
                group=group,
            )
            for r in plain.rows
            for group in (None, HOSTILE)
        ),
        perturbation={**(plain.perturbation or {}), "shift": HOSTILE, "notes": [BREAKOUT]},
        metadata={
            **plain.metadata,
            "title": f"Report of {HOSTILE}",
            "command": f"driftcal evaluate {ODD_NAME!s} {BREAKOUT}",
            "model": {"name": ODD_NAME, "framework": BREAKOUT, "fingerprint": "3f" * 32, "classes": 3},
            "class_names": [HOSTILE, BREAKOUT, "$x_1$ & 50% \u202e", "normal"],
            "explanation": BREAKOUT,
            "method": '=HYPERLINK("http://x")',
        },
    )


def _level_labels(name: str, levels: tuple[int, ...]) -> tuple[str, ...]:
    forms = {"rot": "{}°", "she": "{}°", "xys": "{} px", "xsh": "{} px", "ysh": "{} px"}
    scale = 2 if name.endswith("shift") else 10
    if name.endswith("zoom"):
        return tuple(f"×{1 - level / 10:.1f}" for level in levels)
    return tuple(forms[name[:3]].format(scale * level) for level in levels)


def _row(name: str, shift: str, level: float | str, group: str | None, log_probs: Any, y: Any, draws: int) -> ResultRow:
    evaluation = evaluate(y, log_probs, intervals=draws > 0, n_resamples=max(draws, 2), classes=range(10))
    statistics = evaluation.statistics
    return ResultRow(
        calibrator=name,
        shift=shift,
        level=level,
        n_samples=evaluation.n_samples,
        null_ece=evaluation.null_ece,
        confidence=statistics.confidence,
        clipped=evaluation.n_clipped,
        bins={
            "weight": statistics.bin_weight.tolist(),
            "confidence": statistics.bin_confidence.tolist(),
            "outcome": statistics.bin_outcome.tolist(),
        },
        intervals={k: (i.low, i.high) for k, i in evaluation.intervals.items() if k in _METRICS},
        group=group,
        **{k: getattr(evaluation, k) for k in _METRICS},
    )
