"""A month of traffic with known drift: how soon a monitor says so, and how often it cries wolf.

    python -m benchmarks.accuracy.monitored_month ../shared/golden --page month.html > benchmarks/accuracy/monitored_month.md

Rows are drawn with replacement from recorded logits of 5,000 CIFAR-10 test images (ResNet-20), 500 an hour: ten clean
days, ten days in which a rotation creeps in, two days of strong zoom from one hour to the next, eight clean days. The
monitor knows the Gaussian ladder over 5,000 other images only.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import driftcal
from driftcal.calibrators.scaling.temperature import clean_temperature
from driftcal.drift.reference import DriftReference
from driftcal.monitor.alarm_rule import clean_range, detectable_loss
from driftcal.monitor.monitor import Monitor
from driftcal.report.timeline import write_timeline

ROWS, HOURS = 500, 720
DRIFT, OUT, BACK = 240, 480, 528  # hours at which the slow drift, the sudden one and the recovery begin
SLOW, SUDDEN, LAST_LEVEL = "test_rot_right", "test_xyzoom", 5
CLEAN_RUNS, MONTHS = 1000, 200
LABELLED = 0.1
START = 1_790_812_800  # 2026-10-01


def level_of(hour: int) -> float:
    """How far the rotation has crept, in levels."""
    return LAST_LEVEL * (hour - DRIFT) / (OUT - DRIFT)


def pool_of(hour: int, rng: np.random.Generator, pools: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(condition, row) of each of the hour's rows in the stack of conditions: clean, rotations 1.., zoom."""
    rows = rng.integers(len(pools["labels"]), size=ROWS)
    if hour < DRIFT or hour >= BACK:
        return np.zeros(ROWS, np.int64), rows
    if hour >= OUT:
        return np.full(ROWS, LAST_LEVEL + 1), rows
    level = level_of(hour)
    return np.floor(level).astype(np.int64) + (rng.random(ROWS) < level % 1), rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--page", type=Path, help="where the timeline of one month goes, if anywhere")
    arguments = parser.parse_args()
    stored = np.load(arguments.folder / "cifar10_resnet20.npz")
    ladder, val = stored["ladder_logits"].astype(np.float64), stored["val_labels"].astype(np.int64)
    calibrator = driftcal.make_calibrator("ts").fit(ladder[0], val)
    drift_reference = DriftReference.of(list(ladder), val, calibrator, temperature=clean_temperature(ladder[0], val))
    stack = np.stack([*stored[SLOW][: LAST_LEVEL + 1], stored[SUDDEN][9]]).astype(np.float64)
    pools = {"labels": stored["test_labels"].astype(np.int64)}
    negative_entropy = np.stack([drift_reference.statistics(z, calibrator.predict_proba(z))[:, 2] for z in stack])
    right = np.stack([z.argmax(axis=1) == pools["labels"] for z in stack])
    low, high = clean_range(drift_reference, ROWS, 0.001)

    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    monitor = Monitor(calibrator, drift_reference=drift_reference, class_names=names, window_size=3600)
    rng = np.random.default_rng(0)
    flags, broken = [], None
    for hour in range(HOURS):
        condition, rows = pool_of(hour, rng, pools)
        labels = [
            int(y) if chosen else None
            for y, chosen in zip(pools["labels"][rows], rng.random(ROWS) < LABELLED, strict=True)
        ]
        monitor.update(stack[condition, rows], times=START + 3600 * hour, y=labels)
        flags.append(not low <= negative_entropy[condition, rows].mean() <= high)
        if broken is None and hour % 6 == 0 and monitor.summary().calibration == "rejected":
            broken = hour
    windows = monitor.windows()
    assert [w.state != "ok" for w in windows] == flags, "the quick runs below must say what a monitor says"
    if arguments.page is not None:
        write_timeline(monitor, arguments.page, title="A simulated month: CIFAR-10, ResNet-20")

    alarms = 0
    per_run = []
    for run in range(CLEAN_RUNS):
        drawn = np.random.default_rng([1, run]).integers(negative_entropy.shape[1], size=(HOURS, ROWS))
        means = negative_entropy[0][drawn].mean(axis=1)
        per_run.append(int(((means < low) | (means > high)).sum()))
        alarms += per_run[-1]

    effect = detectable_loss(drift_reference, ROWS, 0.001)
    means_by_condition = negative_entropy.mean(axis=1)
    expected = np.interp(level_of(np.arange(DRIFT, OUT)), np.arange(LAST_LEVEL + 1), means_by_condition[:-1])
    crossing = DRIFT + int(np.argmax(expected <= drift_reference.means[0][2] - effect))
    delays, sudden, back, lost = [], [], [], []
    for month in range(MONTHS):
        rng = np.random.default_rng([2, month])
        flagged = {}
        for hour in [*range(crossing - 48, crossing + 24), OUT, BACK]:
            condition, rows = pool_of(hour, rng, pools)
            mean = negative_entropy[condition, rows].mean()
            flagged[hour] = (not low <= mean <= high, right[condition, rows].mean())
        first = next(hour for hour in sorted(flagged) if flagged[hour][0])
        lost.append(right[0].mean() - np.interp(level_of(first), np.arange(LAST_LEVEL + 1), right.mean(axis=1)[:-1]))
        delays.append(next(hour for hour in range(crossing, OUT) if flagged[hour][0]) - crossing)
        sudden.append(flagged[OUT][0])
        back.append(not flagged[BACK][0])
    spans = {"clean": (0, DRIFT), "slow drift": (DRIFT, OUT), "sudden": (OUT, BACK), "clean again": (BACK, HOURS)}
    accuracy_at = np.interp(level_of(crossing), np.arange(LAST_LEVEL + 1), right.mean(axis=1)[:-1])

    print("# A simulated month\n")
    print(
        "`python -m benchmarks.accuracy.monitored_month ../shared/golden --page month.html > benchmarks/accuracy/monitored_month.md`\n"
    )
    print(
        f"CIFAR-10 ResNet-20, {ROWS} rows an hour for 30 days, TS tuned on clean rows, estimator `{drift_reference.estimator}`, false_alarm_rate = 0.001.\n"
    )
    print("| | stated | measured |")
    print("|---|---:|---:|")
    rate = alarms / (CLEAN_RUNS * HOURS)
    print(f"| clean windows not called ok, {CLEAN_RUNS:,} clean months | at most 0.1 % | {rate:.4%} |")
    print(f"| clean months without a false alarm | | {np.mean(np.array(per_run) == 0):.1%} |")
    print(
        f"| slow drift: hours from a detectable loss of negative_entropy ({effect:.3f}) to the alarm, 95 % of {MONTHS} months | at most 0 | {np.quantile(delays, 0.95):.0f} |"
    )
    print(f"| the same, longest | | {max(delays)} |")
    print(f"| true accuracy by then (clean: {right[0].mean():.3f}) | | {accuracy_at:.3f} |")
    print(f"| accuracy lost when the first alarm comes, mean | | {np.mean(lost):.3f} |")
    print(f"| sudden drift: alarm within its first hour | at least 95 % | {np.mean(sudden):.1%} |")
    print(f"| recovery: ok within its first hour | at least 99.9 % | {np.mean(back):.1%} |\n")
    print("One month (seed 0) through `Monitor`, window by window:\n")
    print(
        "| | hours | ok | drifting | out of distribution | cannot tell | true accuracy | estimated | mean abs. error |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    rng, truth = np.random.default_rng(0), []
    for hour in range(HOURS):
        condition, rows = pool_of(hour, rng, pools)
        rng.random(ROWS)  # the draw of which rows are labelled
        truth.append(right[condition, rows].mean())
    for name, (begin, end) in spans.items():
        part = windows[begin:end]
        counts = [sum(w.state == s for w in part) for s in ("ok", "drifting", "out of distribution", "cannot tell")]
        guess, true = np.array([w.accuracy for w in part]), np.array(truth[begin:end])
        print(
            f"| {name} | {end - begin} | {' | '.join(map(str, counts))} | {true.mean():.3f} | {guess.mean():.3f} | {np.abs(guess - true).mean():.3f} |"
        )
    summary = monitor.summary()
    print(
        f"\nLabels of {LABELLED:.0%} of the rows: accuracy {summary.labelled.accuracy:.3f}, ECE {summary.labelled.ece:.3f}; calibration "
        f"{summary.calibration} (alpha 0.01)"
        + (f", first seen {broken - DRIFT} hours into the slow drift, looking every 6 hours." if broken else ".")
    )


if __name__ == "__main__":
    main()
