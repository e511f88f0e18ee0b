"""Tuning on noise for tabular data: scikit-learn's classifiers on feature matrices, under the suite `tabular`.

    python -m benchmarks.accuracy.tabular          # about 6 minutes; writes tabular.md beside this file

Three data sets, split 40/30/30 into training, validation and test samples; four classifiers each. A cell is the ECE (15 bins) in
domain / the mean over seven drifts, each pooled over its six levels. -P is the paper's tuning on ten levels of noise, -C the
same with nine tenths of the weight on the clean samples (``clean_weight=0.9``).
"""

from __future__ import annotations

import argparse
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
from benchmarks.measure import machine, table_head, table_row, write_page

DATA: dict[str, Callable[[], Any]] = {
    "digits": lambda: load_digits(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "synthetic": lambda: make_classification(6000, 20, n_informative=10, n_classes=4, random_state=0),
}
#: Name -> classifier, and the outputs it is opened with.
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


def errors(model: Any, outputs: str, validation: Any, test: Any) -> tuple[dict[str, tuple[float, float]], str]:
    """ECE in domain and under shift of every column, and the method that auto chose."""
    by_column: dict[str, tuple[float, float]] = {}
    for method, weight in (("ts", None), ("ts", 0.9), ("irm", None), ("irm", 0.9), ("pts", None), ("auto", None)):
        opened = driftcal.open_model(model, outputs=outputs)
        calibrated = driftcal.tune(opened, *validation, method=method, clean_weight=weight)
        lines = {line.calibrator: line for line in driftcal.evaluate(calibrated, *test, n_resamples=0).summary()}
        columns = {"base": "base", method: method, f"{method}-p": f"{method}-{'c' if weight else 'p'}"}
        if method == "auto":
            columns = {calibrated.name: "auto"}
        for name, column in columns.items():
            if name in lines:
                by_column[column] = (lines[name].in_domain_ece, lines[name].mean_ece)
    return by_column, calibrated.name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA), help="only these data sets")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("tabular.md"))
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")  # networks that did not converge
    rows, all_errors = [], []
    for title in arguments.data:
        x, y = DATA[title]()
        order = np.random.default_rng(0).permutation(len(y))
        train, validation, test = np.split(order, [int(0.4 * len(y)), int(0.7 * len(y))])
        for name, (make, outputs) in MODELS.items():
            model = make().fit(x[train], y[train])
            by_column, chosen = errors(model, outputs, (x[validation], y[validation]), (x[test], y[test]))
            all_errors.append([by_column[column] for column in COLUMNS])
            cells = [f"{in_domain:.3f} / {under_shift:.3f}" for in_domain, under_shift in all_errors[-1]]
            rows.append([f"{title}, {name}", *cells[:-1], f"{cells[-1]} ({chosen})"])
            print(rows[-1], flush=True)
    rows.append(["**mean**", *(f"**{a:.3f} / {b:.3f}**" for a, b in np.mean(all_errors, axis=0))])
    titles = ["", *(column.upper() if column not in ("base", "auto") else column for column in COLUMNS)]
    table = "\n".join([table_head(titles, len(titles)), *map(table_row, rows)])
    text = f"# Tabular data under shift\n\n{__doc__.split(chr(10), 1)[1].strip()}\n\n{table}\n\n{machine()}\n"
    write_page(arguments.output, text)


if __name__ == "__main__":
    main()
