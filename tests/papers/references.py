"""The references: one place has them in full, the handbook's page on the papers, and all else names them by a key."""

import re

from sdc.handbook import pages

PAGE = "papers.md"


def references() -> dict[str, str]:
    """Each work in full by its key, such as KDSF, as the page lists them."""
    text = dict(pages())[PAGE]
    listed = re.findall(r"^- \*\*\[(\w+)\]\*\* (.+?)(?=\n- |\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    return {key: " ".join(words.split()) for key, words in listed}
