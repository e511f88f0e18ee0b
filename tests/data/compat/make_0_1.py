"""Writes tests/data/compat/0.1 with the code of driftcal 0.1: one file of every kind, and the numbers they must give.

It ran once, at version 0.1, and is kept as the description of what is in the files. Later versions only read them.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from sklearn.neural_network import MLPClassifier

import driftcal
from driftcal.calibrators import CALIBRATORS, make_calibrator
from driftcal.calibrators.adaptive import AdaptiveCalibrator
from driftcal.store import Key, Store

HERE = Path(__file__).parent / "0.1"
SIZE, CLASSES = 240, 4


def logits_of(rng: np.random.Generator, labels: np.ndarray, scale: float, noise: float) -> np.ndarray:
    """Over-confident logits: the true class is ahead, with noise."""
    signal = np.eye(CLASSES)[labels] * 2.0 + rng.normal(size=(len(labels), CLASSES)) * noise
    return (signal * scale).round(6)


def calibrators() -> None:
    """Every method, fitted on three levels of 240 samples; probabilities of 60 others."""
    rng = np.random.default_rng(20260101)
    labels = rng.integers(0, CLASSES, SIZE)
    levels = [logits_of(rng, labels, 3.0, noise) for noise in (1.0, 1.6, 2.6)]
    stacked, repeated, index = np.concatenate(levels), np.tile(labels, 3), np.repeat([0, 1, 2], SIZE)
    features = {"early": (stacked[:, :3] * 0.3 + rng.normal(size=(len(stacked), 3))).round(6).astype(np.float32)}
    reference = {"early": rng.normal(size=(80, 3)).round(6).astype(np.float32)}
    new_labels = rng.integers(0, CLASSES, 60)
    window = logits_of(rng, new_labels, 3.0, 1.8)
    window_features = (window[:, :3] * 0.3 + rng.normal(size=(60, 3))).round(6).astype(np.float32)
    expected = {"logits": window, "features": window_features}
    for name, kind in CALIBRATORS.items():
        beside = {"features": features} if kind.needs_features else {}
        if kind.needs_reference:
            beside["reference"] = reference
        extra = {"levels": index} if kind.needs_levels else {}
        calibrator = make_calibrator(name).fit(stacked, repeated, **extra, **beside)
        calibrator.save(HERE / "calibrators" / f"{name}.safetensors", notes={"made by": "make_0_1.py"})
        taken = {"features": {"early": window_features}} if kind.needs_features else {}
        expected[f"{name}/probabilities"] = calibrator.predict_proba(window, **taken)
        if isinstance(calibrator, AdaptiveCalibrator):
            expected[f"{name}/windowed"] = calibrator.adapt(window).predict_proba(window)
    np.savez_compressed(HERE / "calibrators" / "expected.npz", **expected)


def pipeline() -> None:
    """A tuned model, its results, a monitor that watched it; the model itself is trained again by the test."""
    train, val, test = driftcal.open_source("digits").split(800, 300, seed=0)
    network = MLPClassifier((16,), max_iter=300, random_state=0).fit(
        train.inputs().reshape(len(train), -1), train.labels
    )
    model = driftcal.open_model(network, outputs="probabilities", preprocessing={"layout": "flat"}, name="digits mlp")
    test = test.subset(range(200))
    (HERE / "pipeline").mkdir(exist_ok=True)
    expected: dict[str, object] = {"fingerprint": model.fingerprint}
    arrays = {"logits": model.logits(test.inputs()), "labels": test.labels}
    for method in ("ts", "ladder-ts"):
        tuned = driftcal.tune(model, val, method=method, levels=4)
        tuned.save(HERE / "pipeline" / f"tuned-{method}.safetensors")
        arrays[f"{method}/probabilities"] = tuned.calibrator.predict_proba(arrays["logits"])
        expected[f"{method}/levels"] = [level["epsilon"] for level in tuned.ladder["levels"]]
    tuned = driftcal.CalibratedModel.load(HERE / "pipeline" / "tuned-ts.safetensors", model)
    results = driftcal.evaluate(tuned, test, suite="affine", intervals=False)
    results.save(HERE / "pipeline")
    expected["summary"] = [vars(line) for line in results.summary()]
    monitor = driftcal.Monitor(HERE / "pipeline" / "tuned-ts.safetensors", every=50)
    ids = [f"row {i}" for i in range(len(test))]
    monitor.update(arrays["logits"], ids=ids)
    monitor.label(ids[:120], test.labels[:120].tolist())
    expected["monitor"] = {
        "rows": monitor.rows,
        "waiting": len(monitor.waiting),
        "windows": [window.to_dict() for window in monitor.windows()],
        "labelled": monitor.summary().to_dict(),
    }
    monitor.save(HERE / "pipeline" / "monitor.safetensors")
    np.savez_compressed(HERE / "pipeline" / "expected.npz", **arrays)
    (HERE / "pipeline" / "expected.json").write_text(json.dumps(expected, indent=1, default=float) + "\n")


def store() -> None:
    """A finished condition and one that is half collected."""
    rng = np.random.default_rng(7)
    logits = rng.normal(size=(20, 3)).astype(np.float32)
    labels = rng.integers(0, 3, 20)
    folder = Store(HERE / "store")
    done = Key(
        model="m", source="s", split="val", shift="gaussian", level=0.01, seed=3, batch_size=4, extra={"size": 8}
    )
    folder.put(done, logits=logits, labels=labels, early=logits[:, :2] * 2)
    half = Key(model="m", source="s", shift="gaussian", level=0.02, batch_size=4)
    folder.put_part(half, 4, logits=logits[4:12], labels=labels[4:12])
    np.savez_compressed(HERE / "store-expected.npz", logits=logits, labels=labels)


if __name__ == "__main__":
    (HERE / "calibrators").mkdir(parents=True, exist_ok=True)
    calibrators()
    store()
    pipeline()
