"""Docstrings as the site's Markdown: examples and literal blocks become code, roles become names. Used by mkdocs.yml."""

import re

import griffe

_ROLE = re.compile(r":(?:func|class|meth|mod|data|attr):`~?([^`]+)`")
_LITERAL = re.compile(r"::\n\n((?:(?: {4}.*)?\n)+(?: {4}.*)?)")


def to_markdown(text: str) -> str:
    """One docstring."""
    text = _ROLE.sub(r"`\1`", text)
    text = _LITERAL.sub(
        lambda m: "\n\n```text\n" + re.sub(r"^ {4}", "", m[1].strip("\n"), flags=re.MULTILINE) + "\n```\n", text
    )
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
