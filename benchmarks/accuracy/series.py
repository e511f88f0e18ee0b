"""Time series in domain and under shift: temperature scaling, tuning on noise, and the default, per sample and windowed.

    pip download --no-deps -d PACKAGES aeon==1.6.0                      # the data sets are in this package
    python -m benchmarks.accuracy.series PACKAGES/aeon-1.6.0-py3-none-any.whl     # writes series.md beside this file

Two real data sets: ItalyPowerDemand (1,096 days of electric power, 24 values, two seasons) and JapaneseVowels (640 utterances, 12
channels, stretched to one length, nine speakers). Five random splits into 40 % training, 30 % validation and 30 % test samples; a network of
two convolutions is trained on each. A cell is the mean over the splits of the ECE (15 bins) in domain / under the suite ``series``, the mean
over its six shifts, each pooled over its six levels.
"""

from __future__ import annotations

import argparse
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import driftcal
from benchmarks.measure import machine, table_head, table_row, write_page

DATA = {"ItalyPowerDemand": "ItalyPowerDemand", "JapaneseVowels": "JapaneseVowels_eq"}
N_SPLITS = 5
WINDOW = 50
COLUMNS = ("uncalibrated", "TS", "TS-P", "default", "default, windowed (50)")


def read(wheel: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """All series (n, length, channels) of a data set, and their labels as numbers."""
    folder, series, labels = name.removesuffix("_eq"), [], []
    with zipfile.ZipFile(wheel) as package:
        for part in ("TRAIN", "TEST"):
            text = package.read(f"aeon/datasets/data/{folder}/{name}_{part}.ts").decode()
            for line in text[text.lower().index("@data") + 5 :].split():
                *channels, label = line.split(":")
                series.append(np.array([[float(value) for value in channel.split(",")] for channel in channels]).T)
                labels.append(label)
    return np.stack(series).astype(np.float32), np.unique(labels, return_inverse=True)[1]


def trained(x: np.ndarray, y: np.ndarray, seed: int) -> torch.nn.Module:
    """A network of two convolutions over time."""
    torch.manual_seed(seed)
    net = torch.nn.Sequential(
        torch.nn.BatchNorm1d(x.shape[2]), torch.nn.Conv1d(x.shape[2], 32, 5, padding=2), torch.nn.ReLU(),
        torch.nn.Conv1d(32, 32, 5, padding=2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool1d(4), torch.nn.Flatten(),
        torch.nn.Linear(128, int(y.max()) + 1),
    )  # fmt: skip
    inputs, labels = torch.tensor(x.transpose(0, 2, 1)), torch.tensor(y)
    optimiser = torch.optim.Adam(net.parameters(), 0.003)
    for _ in range(60):
        for batch in torch.randperm(len(y)).split(32):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(net(inputs[batch]), labels[batch]).backward()
            optimiser.step()
    return net.eval()


def split(x: np.ndarray, y: np.ndarray, seed: int) -> tuple[dict[str, tuple[float, float]], dict[str, Any]]:
    """ECE in domain and under shift of every column; accuracies and what the default chose."""
    order = np.random.default_rng(seed).permutation(len(y))
    train, validation, test = np.split(order, [int(0.4 * len(y)), int(0.7 * len(y))])
    model = driftcal.open_model(trained(x[train], y[train], seed), threads=1)
    sources = [driftcal.open_source((x[part], y[part]), layout="NLC") for part in (validation, test)]
    errors = {}
    for method in ("ts", "auto"):
        calibrated = driftcal.tune(model, sources[0], method=method, random_state=seed)
        results = driftcal.evaluate(calibrated, sources[1], n_resamples=0, window_size=WINDOW, random_state=seed)
        lines = {line.calibrator: line for line in results.summary()}
        titles = (
            {"base": "uncalibrated", "ts": "TS", "ts-p": "TS-P"} if method == "ts" else {calibrated.name: "default"}
        )
        windowed = calibrated.windowed_candidate(WINDOW)
        titles |= {} if windowed is None else {windowed.name: COLUMNS[-1]}
        errors |= {title: (lines[name].in_domain_ece, lines[name].mean_ece) for name, title in titles.items()}
    errors.setdefault(COLUMNS[-1], errors["default"])
    clean = next(row.accuracy for row in results.rows if row.calibrator == "base" and row.level == 0)
    return errors, {"chosen": calibrated.name, "accuracy": clean}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path, help="the downloaded package")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("series.md"))
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")  # fewer than 100 samples of a class
    torch.set_num_threads(1)
    rows, notes = [], []
    for title, name in DATA.items():
        x, y = read(arguments.wheel, name)
        splits = [split(x, y, seed) for seed in range(N_SPLITS)]
        means = {column: np.mean([errors[column] for errors, _ in splits], axis=0) for column in COLUMNS}
        rows.append([title, *(f"{means[column][0]:.3f} / {means[column][1]:.3f}" for column in COLUMNS)])
        print(rows[-1], flush=True)
        worst = max(errors["default"][0] - errors["TS"][0] for errors, _ in splits)
        accuracy = np.mean([facts["accuracy"] for _, facts in splits])
        notes.append(
            f"{title}: clean accuracy {accuracy:.3f}; the default per sample was {', '.join(facts['chosen'] for _, facts in splits)}; its "
            f"largest in-domain ECE above that of TS in one split is {worst:+.3f}."
        )
    table = "\n".join([table_head(["", *COLUMNS], len(COLUMNS) + 1), *map(table_row, rows)])
    text = f"# Time series under shift\n\n{__doc__.split(chr(10), 1)[1].strip(chr(10))}\n\n{table}\n\n"
    write_page(arguments.output, text + "\n\n".join(notes) + f"\n\n{machine()}\n")


if __name__ == "__main__":
    main()
