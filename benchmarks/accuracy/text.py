"""Sentiment of film reviews under shifts of text: temperature scaling, the paper's -P and the default of `tune`.

    pip download --no-deps --no-binary :all: vaderSentiment==3.3.2
    python -m benchmarks.accuracy.text vaderSentiment-3.3.2.tar.gz

The package (MIT licence) carries the data of Hutto & Gilbert 2014: sentences with the mean sentiment that 20 people gave them,
10,605 of film reviews, and others of product reviews, of newspaper editorials and of tweets. A logistic regression on words and
pairs of words learns the sign on film reviews. The other three are shifts that nobody simulated. Writes text.md beside this file.
"""

from __future__ import annotations

import argparse
import io
import tarfile
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import driftcal
from driftcal.metrics import expected_calibration_error
from driftcal.types import Array

INNER = "additional_resources/hutto_ICWSM_2014.tar.gz"
FILES = {
    "film reviews": "movieReviewSnippets",
    "product reviews": "amazonReviewSnippets",
    "editorials": "nytEditorialSnippets",
    "tweets": "tweets",
}
N_TRAIN, N_VALIDATION = 5_000, 2_500
METHODS = ["ts", "ets", "irm"]


def read(package: Path) -> dict[str, tuple[Array, Array]]:
    """Texts and whether each is positive, by kind of text; neutral ones are left out."""
    with tarfile.open(package) as outer:
        (name,) = [member for member in outer.getnames() if member.endswith(INNER)]
        inner = io.BytesIO(outer.extractfile(name).read())  # type: ignore[union-attr]
    data = {}
    with tarfile.open(fileobj=inner) as archive:
        for kind, file in FILES.items():
            member = archive.extractfile(f"hutto_ICWSM_2014/{file}_GroundTruth.txt")
            rows = [line.split("\t") for line in member.read().decode("utf-8", "replace").splitlines()]  # type: ignore[union-attr]
            rows = [row for row in rows if len(row) == 3 and float(row[1]) != 0]
            data[kind] = np.array([row[2] for row in rows], object), np.array([float(row[1]) > 0 for row in rows], int)
    return data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path)
    parser.add_argument("--test", type=int, default=1_500, help="test texts of each kind")
    arguments = parser.parse_args()
    data = read(arguments.package)
    texts, labels = data.pop("film reviews")
    order = np.random.default_rng(0).permutation(len(texts))
    train, validation, test = np.split(order, [N_TRAIN, N_TRAIN + N_VALIDATION])
    test = test[: arguments.test]
    model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), min_df=2), LogisticRegression(C=100, max_iter=1000))
    model.fit(texts[train], labels[train])
    calibrated = driftcal.tune(model, texts[validation], labels[validation])
    print(calibrated.explanation)
    candidates = [
        *calibrated.candidates,
        *driftcal.compare_methods(calibrated, (texts[validation], labels[validation]), methods=METHODS),
    ]
    windowed = calibrated.windowed_candidate()
    candidates += [] if windowed is None else [windowed]
    unique = list({candidate.name: candidate for candidate in candidates}.values())
    results = driftcal.evaluate(calibrated, texts[test], labels[test], candidates=unique, n_resamples=0)
    summary = {line.calibrator: line for line in results.summary()}
    natural = {
        kind: natural_ece(model, x[: arguments.test], y[: arguments.test], unique) for kind, (x, y) in data.items()
    }
    accuracy = {
        kind: float(np.mean(model.predict(x[: arguments.test]) == y[: arguments.test])) for kind, (x, y) in data.items()
    }
    lines = [
        "# Sentiment of film reviews under shifts of text", "",
        "`python -m benchmarks.accuracy.text vaderSentiment-3.3.2.tar.gz`; ECE with 15 bins. Data: Hutto & Gilbert 2014, in the source",
        "package of vaderSentiment 3.3.2 (MIT). Windows of 100. The suite `text`: mean over six shifts, each pooled over its levels. The last",
        "three columns are other kinds of text that nothing was tuned on.", "",
        f"Logistic regression on words and pairs of words, {len(train)} texts to train, {len(validation)} to tune, {len(test)} to test;",
        f"accuracy {float(np.mean(model.predict(texts[test]) == labels[test])):.3f} in domain, "
        + ", ".join(f"{value:.3f} on {kind}" for kind, value in accuracy.items()) + ".", "",
        "| calibrator | in domain | suite `text` | " + " | ".join(data) + " |",
        "|---|" + "---:|" * (2 + len(data)),
        *(
            f"| {name} | {summary[name].in_domain_ece:.3f} | {summary[name].mean_ece:.3f} | "
            + " | ".join(f"{natural[kind][name]:.3f}" for kind in data) + " |"
            for name in [candidate.name for candidate in unique]
        ),
        "", f"Chosen by `tune`: {calibrated.explanation}", "",
    ]  # fmt: skip
    Path(__file__).with_suffix(".md").write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


def natural_ece(model: object, texts: Array, labels: Array, candidates: list[driftcal.Candidate]) -> dict[str, float]:
    """The ECE of each candidate on texts of another kind."""
    logits = driftcal.open_model(model).logits(texts)
    return {
        candidate.name: expected_calibration_error(labels, candidate.predict_proba(logits)) for candidate in candidates
    }


if __name__ == "__main__":
    main()
