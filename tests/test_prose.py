"""The prose of the documentation: short sentences, links that lead somewhere, files and modules that exist.

Retired words are tests/test_vocabulary.py, examples and commands tests/test_docs.py, the reference of the command line
tests/cli/test_reference_page.py.
"""

import re
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
#: Words of the longest sentence or clause (up to a colon or semicolon), and of the median one.
MAX_WORDS, MAX_MEDIAN = 30, 13
#: Pages that are generated or are lists.
NO_PROSE = {"docs/cli.md", "docs/api.md"}

FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)(?: \"[^\"]*\")?\)")


def sentences(text: str) -> list[str]:
    """The sentences of a page's paragraphs and lists; not of code, tables and headings."""
    text = LINK.sub(r"\1", COMMENT.sub("", FENCE.sub("", text)))
    text = re.sub(r"`[^`]*`", "code", text)
    paragraphs: list[str] = [""]
    for line in text.splitlines():
        plain = line.strip()
        if not plain or plain.startswith(("#", "|", "<", "!")):
            paragraphs.append("")
        elif re.match(r"([-*]|\d+\.) ", plain):
            paragraphs.append(re.sub(r"^([-*]|\d+\.) ", "", plain))
        else:
            paragraphs[-1] += f" {plain}"
    return [
        part.strip() for paragraph in paragraphs for part in re.split(r"(?<=[.!?:;])[\s*]+", paragraph) if part.strip()
    ]


def n_words(sentence: str) -> int:
    return sum(1 for word in sentence.split() if any(character.isalnum() for character in word))


@pytest.mark.parametrize(
    "path", [p for p in PAGES if p.relative_to(ROOT).as_posix() not in NO_PROSE], ids=lambda p: p.name
)
def test_sentences_are_short(path):
    lengths = {sentence: n_words(sentence) for sentence in sentences(path.read_text(encoding="utf-8"))}
    assert [sentence for sentence, length in lengths.items() if length > MAX_WORDS] == []
    assert median(length for length in lengths.values() if length > 2) <= MAX_MEDIAN


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and mkdocs make them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", LINK.sub(r"\1", heading).lower()) for heading in headings)
    return {re.sub(r"[ ]+", "-", heading.strip()) for heading in plain}


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(path):
    dead = []
    for _, target in LINK.findall(FENCE.sub("", path.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):  # an address
            continue
        name, _, anchor = target.partition("#")
        page = path.parent / name if name else path
        if not page.exists() or (anchor and page.suffix == ".md" and anchor not in anchors(page)):
            dead.append(target)
    assert dead == []


#: Files of the repository in code, and modules that a reader is told to run.
FILE = re.compile(r"`((?:attacks|benchmarks|docs|examples|src|tests|tools)/[\w./-]+)`")
MODULE = re.compile(r"python -m ((?:attacks|benchmarks|tools)\.[\w.]*\w)")


def missing_files(text: str) -> list[str]:
    missing = [name for name in FILE.findall(text) if not (ROOT / name).exists()]
    for module in MODULE.findall(text):
        path = ROOT / module.replace(".", "/")
        if not path.with_suffix(".py").exists() and not (path / "__main__.py").exists():
            missing.append(module)
    return missing


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_named_files_and_modules_exist(path):
    assert missing_files(path.read_text(encoding="utf-8")) == []


def test_a_missing_file_or_module_is_found():
    text = "See `docs/faq.md`, `docs/nothing.md`; `python -m benchmarks.measure`, `python -m benchmarks.nothing`."
    assert missing_files(text) == ["docs/nothing.md", "benchmarks.nothing"]


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Where to go next")[0]
    assert len(text.split()) < 450, "under 400 words of prose, and a table"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A b c. D e!\n\n- One two\n  three.\n", ["A b c.", "D e!", "One two three."]),
        ("# Title\n\n```text\nno. no\n```\n| a. b |\n\n[Text here](url.md) ends.", ["Text here ends."]),
    ],
)
def test_the_sentences_of_a_page(text, expected):
    assert sentences(text) == expected
