"""How many rows a calibrator of many classes needs: Dirichlet calibration and its peers, with few rows and up to 1,000 classes.

    python -m benchmarks.accuracy.many_classes [--golden FOLDER]          # about 6 minutes; writes many_classes.md beside this file

A network foretells the next token of Python source from the eight before it: 1,000 classes with real confusions and no download. It
is trained on the source of installed packages; tuned and tested on other stretches of theirs ("test") and on torch's and sympy's
("elsewhere"). Fewer classes are its most frequent tokens alone. With ``--golden`` also the recorded logits of a CIFAR-10 ResNet-20.
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

from benchmarks.speed.measure import machine
from driftcal.calibrators import make_calibrator
from driftcal.errors import DidNotConverge
from driftcal.metrics import expected_calibration_error, negative_log_likelihood

AT_HOME, ELSEWHERE = ("numpy", "scipy", "sklearn", "pandas"), ("torch", "sympy")
TOKENS, CLASSES, WORDS, BEFORE = 1_500_000, 1_000, 6_000, 8
#: Tokens in a row that are all for training or all for tuning and testing.
STRETCH = 7_500
KINDS = {tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE}
#: Classes, and tuning rows as multiples of their square.
CASES = {10: (0.5, 2, 10, 50), 30: (0.5, 2, 10), 100: (0.1, 0.5, 2), 1000: (0.025,)}
#: Calibrators as they are, beta calibration with three numbers even for rare classes, and Dirichlet calibration with a fixed penalty.
PENALTY = "Dirichlet, penalty 0.1"
FORMS: dict[str, tuple[str, dict[str, float]]] = {
    "TS": ("ts", {}),
    "SVS": ("svs", {}),
    "VS": ("vs", {}),
    "beta": ("beta", {}),
    "beta, three numbers": ("beta", {"tied_below": 1}),
    "Dirichlet": ("dirichlet", {}),
    PENALTY: ("dirichlet", {"penalty": 0.1}),
}
#: A whole matrix of more classes takes minutes or does not settle.
MOST_FOR_A_PENALTY = 30
LabelledLogits = tuple[np.ndarray, np.ndarray]


def tokens_of(package: str) -> Iterator[str]:
    """The first tokens of a package's source; strings are all alike, comments are none."""
    spec, left = importlib.util.find_spec(package), TOKENS
    for path in sorted(Path(str(spec and spec.origin)).parent.rglob("*.py")):
        try:
            found = list(tokenize.generate_tokens(io.StringIO(path.read_text()).readline))
        except (tokenize.TokenError, SyntaxError, UnicodeDecodeError):
            continue
        for token in found[:left]:
            if token.type in KINDS:
                yield token.string if token.string.strip() else str(token.type)
            elif token.type == tokenize.STRING:
                yield "a string"
        left -= len(found)
        if left <= 0:
            return


def windows(tokens: list[str], numbers: dict[str, int]) -> np.ndarray:
    """Stretches of BEFORE + 1 tokens as numbers whose last is one of the classes."""
    row = np.array([numbers.get(token, WORDS) for token in tokens])
    found = np.lib.stride_tricks.sliding_window_view(row, BEFORE + 1)
    return found[found[:, -1] < CLASSES]


def data() -> tuple[LabelledLogits, LabelledLogits]:
    """Logits and labels of 100,000 windows at home and 30,000 elsewhere, after one pass over all others at home."""
    torch.manual_seed(0)
    rng, home = np.random.default_rng(0), [list(tokens_of(package)) for package in AT_HOME]
    numbers = {token: i for i, (token, _) in enumerate(Counter(chain(*home)).most_common(WORDS))}
    parts = [tokens[start : start + STRETCH] for tokens in home for start in range(0, len(tokens) - BEFORE, STRETCH)]
    held = rng.random(len(parts)) < 0.1
    train, test = (
        np.concatenate([windows(part, numbers) for part, out in zip(parts, held, strict=True) if out == kept])
        for kept in (False, True)
    )
    away = np.concatenate([windows(list(tokens_of(package)), numbers) for package in ELSEWHERE])
    layers = [torch.nn.Embedding(WORDS + 1, 48), torch.nn.Flatten(), torch.nn.Linear(48 * BEFORE, 384), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers, torch.nn.Linear(384, 256), torch.nn.ReLU(), torch.nn.Linear(256, CLASSES))
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
    found = []
    for rows, most in ((test, 100_000), (away, 30_000)):
        chosen = torch.from_numpy(rows[rng.permutation(len(rows))[:most]])
        with torch.no_grad():
            logits = torch.cat([net(part[:, :-1]) for part in chosen.split(2_000)]).numpy()
        found.append((logits, chosen[:, -1].numpy()))
    return found[0], found[1]


def cells(form: str, classes: int, tuning: LabelledLogits, tests: list[LabelledLogits]) -> list[str]:
    """The loss and the ECE of one calibrator on each test."""
    if form == PENALTY and classes > MOST_FOR_A_PENALTY:
        return ["–"] * len(tests)
    name, params = FORMS[form]
    try:
        calibrator = make_calibrator(name, **params).fit(*tuning)
    except DidNotConverge:
        return ["did not converge"] * len(tests)
    found = []
    for logits, labels in tests:
        p = calibrator.predict_proba(logits)
        loss, error = negative_log_likelihood(labels, p), expected_calibration_error(labels, p)
        found.append(f"{loss:.3f} / {error:.3f}")
    return found


def line(classes: int, tuning: LabelledLogits, tests: list[LabelledLogits]) -> str:
    """A line of the table: each form on each test."""
    rows = len(tuning[0])
    told = [" · ".join(cells(form, classes, tuning, tests)) for form in FORMS]
    text = f"| {classes} | {rows:,} | {rows / classes**2:.3g} | {' | '.join(told)} |"
    print(text, flush=True)
    return text


def recorded(folder: Path) -> list[str]:
    """Lines of a CIFAR-10 ResNet-20, tuned on clean rows and on its ladder; "elsewhere" are nine affine shifts, pooled."""
    stored = np.load(folder / "cifar10_resnet20.npz")
    own, other = (stored[name].astype(int) for name in ("val_labels", "test_labels"))
    shifts = [stored[name] for name in stored.files if name.startswith("test_") and name != "test_labels"]
    away = np.concatenate([shift[1:].reshape(-1, 10) for shift in shifts]).astype(np.float64)
    tests = [(shifts[0][0].astype(np.float64), other), (away, np.tile(other, len(away) // len(other)))]
    ladder = stored["ladder_logits"].astype(np.float64)
    tunings = [(ladder[0, :n], own[:n]) for n in (100, 500, 5_000)]
    tunings += [(ladder[:, :n].reshape(-1, 10), np.tile(own[:n], len(ladder))) for n in (200, 5_000)]
    return [line(10, tuning, tests) for tuning in tunings]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--golden", type=Path, help="a folder with the recorded logits, cifar10_resnet20.npz")
    given = parser.parse_args()
    titles = ["classes", "rows", "rows / C²", *FORMS]
    head = f"| {' | '.join(titles)} |\n" + "| --- " * len(titles) + "|"
    sections = []
    if given.golden:
        lines = "\n".join([head, *recorded(given.golden)])
        sections.append(
            f"## CIFAR-10, ResNet-20\n\nThree times clean rows, then twice ten levels of noise (-P).\n\n{lines}\n"
        )
    (logits, labels), (far, far_labels) = data()
    lines = [head]
    for classes, shares in CASES.items():
        kept, far_kept = labels < classes, far_labels < classes
        z, y = logits[kept][:, :classes], labels[kept]
        tests = [(z[-20_000:], y[-20_000:]), (far[far_kept][:, :classes], far_labels[far_kept])]
        for share in shares:
            n = int(share * classes**2)
            lines.append(line(classes, (z[:n], y[:n]), tests))
    sections.insert(0, "## The next token\n\n" + "\n".join(lines) + "\n")
    page = Path(__file__).with_name("many_classes.md")
    kept_text = page.read_text().split("\n## What it says", 1)[1:] if page.exists() else []
    text = (
        f"# Many classes, few rows\n\nMade by `python -m benchmarks.accuracy.many_classes --golden FOLDER`; {machine()}.\n"
        "Cells: negative log-likelihood / ECE on other rows like those of the tuning, then on rows from elsewhere.\n\n"
    )
    page.write_text("\n## What it says".join([text + "\n".join(sections), *kept_text]))


if __name__ == "__main__":
    main()
