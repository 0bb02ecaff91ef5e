"""The fix of a code, as a message carries it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.core.error_codes import ErrorCode
from sluice.notify import remedies


@pytest.mark.parametrize("code", ErrorCode)
def test_every_code_has_a_fix_in_plain_text(code: ErrorCode) -> None:
    text = remedies.fix(code)
    assert text.endswith(f" (docs/errors.md, {code.value})")
    assert "](" not in text
    assert "`" not in text


def test_without_the_page_a_message_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(remedies, "FILE", tmp_path / "errors.md")
    remedies._fixes.cache_clear()
    try:
        assert remedies.fix(ErrorCode.SUSPENDED) == "docs/errors.md, SLU-503"
    finally:
        remedies._fixes.cache_clear()
