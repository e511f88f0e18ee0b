"""``python -m tools.fuzz --seconds 300``: mutate files of every kind and open them.

Each reader runs in a process of its own, so that a crash of native code is seen and the others go on. A file that leads
to a new error is kept and mutated further. Every file that gives a foreign error is kept in ``runs/fuzz/NAME/found``.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from driftcal.errors import DriftcalError

FOLDER = Path("runs/fuzz")
#: Seconds that one file may take.
SLOW = 10.0


def fuzz(name: str, seconds: float, seed: int, folder: Path, count: int | None = None) -> Counter[str]:
    """Fuzz one reader for some seconds, or for `count` files; the counts by outcome."""
    from tools.fuzz.targets import make_target

    target = make_target(name, folder / name)
    rng, outcomes = random.Random(f"{name}/{seed}"), Counter[str]()
    current, found = folder / name / f"current{target.seeds[0].suffix}", folder / name / "found"
    for path in target.seeds:
        target.open(path)  # the files to begin with are good
    kinds: set[tuple[str, ...]] = set()
    end = time.monotonic() + seconds
    while time.monotonic() < end and (count is None or outcomes.total() < count):
        target.mutate(rng, current)
        begun = time.monotonic()
        kind = _outcome(target.open, current, kinds, target.corpus)
        if time.monotonic() - begun > SLOW:
            kind = "foreign: slow"
        outcomes[kind.partition(":")[0]] += 1
        if kind.startswith("foreign"):
            found.mkdir(exist_ok=True)
            (found / f"{seed}-{outcomes.total()}").write_bytes(current.read_bytes())
            print(f"  {name} {seed}-{outcomes.total()}: {kind}", flush=True)
    return outcomes


def _outcome(open_file: object, path: Path, kinds: set[tuple[str, ...]], corpus: list[bytes]) -> str:
    try:
        open_file(path)  # type: ignore[operator]
    except DriftcalError as error:
        frames = (
            *(f"{f.filename}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)),
            type(error.__cause__).__name__,
        )
        if frames not in kinds and len(corpus) < 1000:  # a new way to be refused: worth to be mutated further
            kinds.add(frames)
            corpus.append(path.read_bytes())
        return "refused"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"foreign: {type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {str(error)[:150]}"
    return "read"


def main() -> None:
    """Fuzz all readers, or the one that --target names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="for all readers together")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--target", action="append", help="only this reader")
    parser.add_argument("--here", action="store_true", help="in this process")
    arguments = parser.parse_args()
    from tools.fuzz.targets import NAMES

    names = arguments.target or list(NAMES)
    if arguments.here:
        outcomes = fuzz(names[0], arguments.seconds, arguments.seed, FOLDER)
        print(f"{names[0]}: {outcomes.total():,} files, {outcomes['read']:,} read, {outcomes['refused']:,} refused, "
              f"{outcomes['foreign']:,} foreign errors")  # fmt: skip
        sys.exit(1 if outcomes["foreign"] else 0)
    failed = []
    print(f"seed {arguments.seed}", flush=True)
    for name in names:
        options = [
            "--here",
            "--target",
            name,
            "--seconds",
            str(arguments.seconds / len(names)),
            "--seed",
            str(arguments.seed),
        ]
        code = subprocess.run([sys.executable, "-m", "tools.fuzz", *options], check=False).returncode
        if code:
            failed.append(name)
            if code < 0:
                print(f"  {name}: the process ended with signal {-code}; the file is {FOLDER / name}/current")
    if failed:
        sys.exit(f"foreign errors or crashes: {', '.join(failed)}")
    print("no foreign error")


if __name__ == "__main__":
    main()
