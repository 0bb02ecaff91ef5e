"""What docs/errors.md says to do about an error code."""

from __future__ import annotations

import logging
import re
from functools import cache
from pathlib import Path

from sluice.core.error_codes import ErrorCode

# Beside plugins/, in the repository as in the images.
log = logging.getLogger(__name__)

FILE = Path(__file__).parents[3] / "docs" / "errors.md"
_ROW = re.compile(r"^\| `(SLU-\d{3})` \|(?:[^|]*\|){2} (.+) \|$", re.M)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


def fix(code: ErrorCode) -> str:
    """The fix as plain text, with the pages that it links to."""
    text = _fixes().get(code.value)
    page = f"docs/errors.md, {code.value}"
    return f"{text} ({page})" if text else page


@cache
def _fixes() -> dict[str, str]:
    try:
        page = FILE.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        # As where the plugin is an installed package: an alert must not fail over its advice.
        log.warning("%s cannot be read: %s", FILE, error)
        return {}
    return {code: _plain(text) for code, text in _ROW.findall(page)}


def _plain(markdown: str) -> str:
    linked = _LINK.sub(lambda link: f"{link[1]} (docs/{link[2].removeprefix('docs/')})", markdown)
    return linked.replace("`", "")
