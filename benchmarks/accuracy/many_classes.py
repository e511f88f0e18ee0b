"""How many samples calibrators of many classes need: Dirichlet calibration and others with few samples, up to 1,000 classes.

    python -m benchmarks.accuracy.many_classes [--golden FOLDER]          # about 6 minutes; writes many_classes.md beside this file

A network predicts the next token of Python source from the eight tokens before it: 1,000 classes with real confusions and no
download. It is trained on the source of installed packages. Calibrators are tuned and tested on other parts of these packages
("test") and tested on torch's and sympy's source ("elsewhere"). Fewer classes are its most frequent tokens alone. With
``--golden`` the recorded logits of a CIFAR-10 ResNet-20 are measured too.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import tokenize
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import torch

from benchmarks.accuracy.recorded_logits import RecordedLogits
from benchmarks.measure import machine, table_head, table_row, write_page
from driftcal.calibrators import make_calibrator
from driftcal.errors import DidNotConverge
from driftcal.metrics import expected_calibration_error, negative_log_likelihood

PACKAGES, OTHER_PACKAGES = ("numpy", "scipy", "sklearn", "pandas"), ("torch", "sympy")
MAX_TOKENS, N_CLASSES, N_WORDS, CONTEXT = 1_500_000, 1_000, 6_000, 8
#: Consecutive tokens that are all for training or all for tuning and testing.
PART_LENGTH = 7_500
TOKEN_TYPES = {tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE}
#: Number of classes C -> numbers of tuning samples as multiples of C².
SIZES = {10: (0.5, 2, 10, 50), 30: (0.5, 2, 10), 100: (0.1, 0.5, 2), 1000: (0.025,)}
#: Title -> calibrator and parameters: the defaults, beta calibration with three parameters for every class, and Dirichlet
#: calibration with a fixed penalty.
FIXED_PENALTY = "Dirichlet, penalty 0.1"
CALIBRATORS: dict[str, tuple[str, dict[str, float]]] = {
    "TS": ("ts", {}),
    "SVS": ("svs", {}),
    "VS": ("vs", {}),
    "beta": ("beta", {}),
    "beta, three numbers": ("beta", {"tied_below": 1}),
    "Dirichlet": ("dirichlet", {}),
    FIXED_PENALTY: ("dirichlet", {"penalty": 0.1}),
}
#: With more classes the fixed penalty takes minutes or does not converge.
MAX_CLASSES_FIXED_PENALTY = 30
#: Logits and labels.
Samples = tuple[np.ndarray, np.ndarray]


def tokens_of(package: str) -> Iterator[str]:
    """The first tokens of a package's source; all strings are one token, comments are left out."""
    spec, left = importlib.util.find_spec(package), MAX_TOKENS
    for path in sorted(Path(str(spec and spec.origin)).parent.rglob("*.py")):
        try:
            tokens = list(tokenize.generate_tokens(io.StringIO(path.read_text()).readline))
        except (tokenize.TokenError, SyntaxError, UnicodeDecodeError):
            continue
        for token in tokens[:left]:
            if token.type in TOKEN_TYPES:
                yield token.string if token.string.strip() else str(token.type)
            elif token.type == tokenize.STRING:
                yield "a string"
        left -= len(tokens)
        if left <= 0:
            return


def windows(tokens: list[str], numbers: dict[str, int]) -> np.ndarray:
    """All runs of CONTEXT + 1 tokens, as numbers, whose last token is one of the classes."""
    numbered = np.array([numbers.get(token, N_WORDS) for token in tokens])
    runs = np.lib.stride_tricks.sliding_window_view(numbered, CONTEXT + 1)
    return runs[runs[:, -1] < N_CLASSES]


def token_samples() -> tuple[Samples, Samples]:
    """100,000 samples of the packages and 30,000 of the others, after one epoch on the remaining parts of the packages."""
    torch.manual_seed(0)
    rng, by_package = np.random.default_rng(0), [list(tokens_of(package)) for package in PACKAGES]
    numbers = {token: i for i, (token, _) in enumerate(Counter(chain(*by_package)).most_common(N_WORDS))}
    parts = [
        tokens[start : start + PART_LENGTH]
        for tokens in by_package
        for start in range(0, len(tokens) - CONTEXT, PART_LENGTH)
    ]
    held_out = rng.random(len(parts)) < 0.1
    train, test = (
        np.concatenate([windows(part, numbers) for part, out in zip(parts, held_out, strict=True) if out == chosen])
        for chosen in (False, True)
    )
    elsewhere = np.concatenate([windows(list(tokens_of(package)), numbers) for package in OTHER_PACKAGES])
    net = train_network(train, rng)
    samples = []
    for data, n_samples in ((test, 100_000), (elsewhere, 30_000)):
        chosen = torch.from_numpy(data[rng.permutation(len(data))[:n_samples]])
        with torch.no_grad():
            logits = torch.cat([net(batch[:, :-1]) for batch in chosen.split(2_000)]).numpy()
        samples.append((logits, chosen[:, -1].numpy()))
    return samples[0], samples[1]


def train_network(train: np.ndarray, rng: np.random.Generator) -> torch.nn.Module:
    """A small network after one epoch."""
    layers = [
        torch.nn.Embedding(N_WORDS + 1, 48), torch.nn.Flatten(), torch.nn.Linear(48 * CONTEXT, 384), torch.nn.ReLU(),
    ]  # fmt: skip
    net = torch.nn.Sequential(*layers, torch.nn.Linear(384, 256), torch.nn.ReLU(), torch.nn.Linear(256, N_CLASSES))
    optimiser = torch.optim.Adam(net.parameters(), 1e-3)
    order = rng.permutation(len(train))
    for step, start in enumerate(range(0, len(order) - 512, 512)):
        batch = torch.from_numpy(train[order[start : start + 512]])
        loss = torch.nn.functional.cross_entropy(net(batch[:, :-1]), batch[:, -1])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if step % 1_000 == 0:
            print(f"training: {start / len(order):.0%}, loss {loss.item():.2f}", flush=True)
    return net


def cells(title: str, n_classes: int, tuning: Samples, tests: list[Samples]) -> list[str]:
    """The loss and the ECE of one calibrator on each test set."""
    if title == FIXED_PENALTY and n_classes > MAX_CLASSES_FIXED_PENALTY:
        return ["–"] * len(tests)
    name, parameters = CALIBRATORS[title]
    try:
        calibrator = make_calibrator(name, **parameters).fit(*tuning)
    except DidNotConverge:
        return ["did not converge"] * len(tests)
    texts = []
    for logits, labels in tests:
        p = calibrator.predict_proba(logits)
        loss, error = negative_log_likelihood(labels, p), expected_calibration_error(labels, p)
        texts.append(f"{loss:.3f} / {error:.3f}")
    return texts


def row(n_classes: int, tuning: Samples, tests: list[Samples]) -> str:
    """A row of the table: each calibrator on each test set."""
    n_samples = len(tuning[0])
    errors = [" · ".join(cells(title, n_classes, tuning, tests)) for title in CALIBRATORS]
    text = table_row([n_classes, f"{n_samples:,}", f"{n_samples / n_classes**2:.3g}", *errors])
    print(text, flush=True)
    return text


def cifar10_rows(folder: Path) -> list[str]:
    """A CIFAR-10 ResNet-20, tuned on clean samples and on ten levels of noise; "elsewhere" are nine affine shifts, pooled."""
    recorded = RecordedLogits.load(folder)
    shifted = np.concatenate([logits[1:].reshape(-1, 10) for logits in recorded.shifts.values()])
    labels = np.tile(recorded.test_labels, len(shifted) // len(recorded.test_labels))
    tests = [(recorded.clean_test, recorded.test_labels), (shifted, labels)]
    tunings = [recorded.tuning_samples(perturbed=False, n_images=n) for n in (100, 500, 5_000)]
    tunings += [recorded.tuning_samples(perturbed=True, n_images=n) for n in (200, 5_000)]
    return [row(10, tuning, tests) for tuning in tunings]


def token_rows() -> list[str]:
    """The next token, with the most frequent tokens as classes."""
    (logits, labels), (other_logits, other_labels) = token_samples()
    rows = []
    for n_classes, multiples in SIZES.items():
        kept, other_kept = labels < n_classes, other_labels < n_classes
        z, y = logits[kept][:, :n_classes], labels[kept]
        tests = [(z[-20_000:], y[-20_000:]), (other_logits[other_kept][:, :n_classes], other_labels[other_kept])]
        for multiple in multiples:
            n = int(multiple * n_classes**2)
            rows.append(row(n_classes, (z[:n], y[:n]), tests))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--golden", type=Path, help="a folder with the recorded logits, cifar10_resnet20.npz")
    golden = parser.parse_args().golden
    head = table_head(["classes", "samples", "samples / C²", *CALIBRATORS])
    sections = [["## The next token\n", head, *token_rows()]]
    if golden:
        text = "The first three rows are tuned on clean samples, the last two on ten levels of noise (-P).\n"
        sections.append(["## CIFAR-10, ResNet-20\n", text, head, *cifar10_rows(golden)])
    title = (
        f"# Many classes, few samples\n\nMade by `python -m benchmarks.accuracy.many_classes --golden FOLDER`; {machine()}.\n"
        "Cells: negative log-likelihood / ECE on other samples like those of the tuning, then on samples from elsewhere.\n"
    )
    text = "\n\n".join("\n".join(lines) for lines in sections)
    write_page(Path(__file__).with_name("many_classes.md"), f"{title}\n{text}\n")


if __name__ == "__main__":
    main()
