"""What tuning on noise does for tables: scikit-learn's classifiers on feature matrices, under the suite `tabular`.

    python -m benchmarks.accuracy.tabular          # about 6 minutes; writes tabular.md beside this file

Three data sets, split 40/30/30 into training, validation and test rows; four classifiers each. A cell is the ECE (15 bins) in
domain / the mean over seven drifts, each pooled over its six levels. -P is the paper's tuning on ten levels of noise, -C the
same with nine tenths of the weight on the clean rows (``clean_weight=0.9``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import driftcal
from benchmarks.speed.measure import machine

DATA: dict[str, Callable[[], Any]] = {
    "digits": lambda: load_digits(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "synthetic": lambda: make_classification(6000, 20, n_informative=10, n_classes=4, random_state=0),
}
#: name -> (classifier, what it is opened as)
MODELS: dict[str, tuple[Callable[[], Any], str]] = {
    "logistic": (
        lambda: make_pipeline(StandardScaler(), LogisticRegression(C=10, max_iter=3000)), "logits",
    ),
    "network": (
        lambda: make_pipeline(StandardScaler(), MLPClassifier((50,), max_iter=300, random_state=0)), "probabilities",
    ),
    "forest": (lambda: RandomForestClassifier(100, random_state=0), "probabilities"),
    "boosting": (lambda: HistGradientBoostingClassifier(random_state=0), "logits"),
}  # fmt: skip
COLUMNS = ("base", "ts", "ts-p", "ts-c", "irm", "irm-p", "irm-c", "pts-p", "auto")


def figures(model: Any, outputs: str, validation: Any, test: Any) -> dict[str, tuple[float, float, str]]:
    """(in domain, under drift, method) of every column."""
    found = {}
    for method, weight in (("ts", None), ("ts", 0.9), ("irm", None), ("irm", 0.9), ("pts", None), ("auto", None)):
        tuned = driftcal.tune(model, *validation, method=method, clean_weight=weight, outputs=outputs)
        for line in driftcal.evaluate(tuned, *test, intervals=False).summary():
            kind = "" if not line.calibrator.endswith("-p") else "-c" if weight else "-p"
            name = "base" if line.calibrator == "base" else method if method == "auto" else method + kind
            found[name] = (
                line.in_domain_ece,
                line.mean_ece,
                tuned.method,
            )  # -p comes after its clean twin: auto's is kept
    return found


def main() -> None:
    warnings.filterwarnings("ignore")  # networks that would like more iterations
    lines, everything = [], []
    for title, load in DATA.items():
        x, y = load()
        order = np.random.default_rng(0).permutation(len(y))
        train, validation, test = np.split(order, [int(0.4 * len(y)), int(0.7 * len(y))])
        for name, (make, outputs) in MODELS.items():
            model = make().fit(x[train], y[train])
            found = figures(model, outputs, (x[validation], y[validation]), (x[test], y[test]))
            everything.append([found[column][:2] for column in COLUMNS])
            cells = [f"{a:.3f} / {b:.3f}" for a, b in everything[-1]]
            lines.append([f"{title}, {name}", *cells[:-1], f"{cells[-1]} ({found['auto'][2]})"])
            print(lines[-1], flush=True)
    means = np.mean(everything, axis=0)
    lines.append(["**mean**", *(f"**{a:.3f} / {b:.3f}**" for a, b in means)])
    head = ["", *(column.upper() if column not in ("base", "auto") else column for column in COLUMNS)]
    table = [head, ["---"] * len(head), *lines]
    body = "\n".join(f"| {' | '.join(row)} |" for row in table)
    kept = (Path(__file__).parent / "tabular.md").read_text().split("\n## ", 1)[1:] if _there() else []
    text = f"# Tables under drift\n\n{__doc__.split(chr(10), 1)[1].strip()}\n\n{body}\n\n{machine()}\n"
    (Path(__file__).parent / "tabular.md").write_text("\n## ".join([text, *kept]))


def _there() -> bool:
    return (Path(__file__).parent / "tabular.md").exists()


if __name__ == "__main__":
    main()
