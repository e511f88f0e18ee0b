"""What mkdocs does to pages: three lie in the root of the repository, and marks of tests leave code blocks. Used by mkdocs.yml."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
#: Page of the site -> file of the repository.
PAGES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md", "security.md": "SECURITY.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages; links to docs/ lead to the pages beside them."""
    for page, source in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=re.sub(r"\]\(docs/", "](", text)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Drop "no-run needs-network" after "python", which tests read (tests/test_docs.py) and Markdown does not know."""
    return re.sub(r"^```python no-run.*$", "```python", markdown, flags=re.MULTILINE)
