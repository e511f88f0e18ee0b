"""Docstrings as the site's Markdown: sections become lists, examples and literal blocks code, roles names. Used by mkdocs.yml."""

import re

import griffe

_ROLE = re.compile(r":(?:func|class|meth|mod|data|attr):`~?([^`]+)`")
_LITERAL = re.compile(r"::\n\n((?:(?: {4}.*)?\n)+(?: {4}.*)?)")
#: A heading, its line of hyphens, and all lines up to the next empty one.
_SECTION = re.compile(r"^(Parameters|Returns|Yields|Raises|Attributes)\n-{3,}\n((?:.+\n?)+)", re.MULTILINE)
#: "name", or "name : text", and the indented lines below it.
_ENTRY = re.compile(r"^(\S[^\n:]*?)(?: : ([^\n]+))?((?:\n +\S[^\n]*)*)$", re.MULTILINE)


def section(match: re.Match[str]) -> str:
    """A numpydoc section as a list.

    >>> print(_SECTION.sub(section, '''Parameters
    ... ----------
    ... X, y
    ...     Inputs, and
    ...     a label of each.
    ... '''))
    **Parameters**
    <BLANKLINE>
    - **X, y**: Inputs, and a label of each.
    <BLANKLINE>
    """
    entries = [
        f"- **{name}**: {' '.join([first or '', *more.split()]).strip()}"
        for name, first, more in _ENTRY.findall(match[2])
    ]
    return "\n".join([f"**{match[1]}**", "", *entries, ""])


def to_markdown(text: str) -> str:
    """One docstring."""
    text = _ROLE.sub(r"`\1`", text)
    text = _LITERAL.sub(
        lambda m: "\n\n```text\n" + re.sub(r"^ {4}", "", m[1].strip("\n"), flags=re.MULTILINE) + "\n```\n", text
    )
    text = _SECTION.sub(section, text)
    lines: list[str] = []
    inside = False
    for line in text.split("\n"):
        if line.startswith(">>>") and not inside:
            lines += ["", "```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)


class Docstrings(griffe.Extension):
    """Rewrites every docstring once it is read."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Any module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)
