"""Texts of reasons."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.decoding.texts import MAX_REASON, printable, quoted, text_of


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("a plain text", "a plain text"),
        ("Zürich, 東京, 😀", "Zürich, 東京, 😀"),
        ("a\nb\0", "a\\u000ab\\u0000"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("no\u00a0break", "no\\u00a0break"),
        ("\ufeff\ue000\uffff", "\\ufeff\\ue000\\uffff"),
        ("tag \U000e0001", "tag \\ue0001"),
        # As Spark does with bytes that are no UTF-8.
        ("half \ud800.", "half \ufffd\ufffd\ufffd."),
        ("\ud83d\ude00", "\ufffd" * 6),
    ],
)
def test_what_is_not_printable_is_shown_by_its_number(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_long_reason_is_cut() -> None:
    assert printable("é" * MAX_REASON) == "é" * MAX_REASON
    assert printable("é" * (MAX_REASON + 1)) == "é" * MAX_REASON + "…"
    assert printable("\n" * (MAX_REASON + 1)) == "\\u000a" * MAX_REASON + "…"


@given(st.text(max_size=20))
def test_only_printable_characters_are_left(text: str) -> None:
    shown = printable(text)
    assert shown.encode().decode() == shown
    assert all(one == " " or unicodedata.category(one)[0] not in "CZ" for one in shown)
    assert len(shown) >= len(text)
    kept = [one for one in text if one == " " or unicodedata.category(one)[0] not in "CZ"]
    if len(kept) == len(text):
        assert shown == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"", ""),
        (b"a\nb", "a\nb"),
        ("é".encode(), "é"),
        (b"a\xff", "X'61FF'"),
        (b"\xed\xa0\x80", "X'EDA080'"),
        (b"\xc0\x80", "X'C080'"),
        (b"\xf4\x90\x80\x80", "X'F4908080'"),
    ],
)
def test_bytes_are_their_text_or_hex(value: bytes, text: str) -> None:
    assert text_of(value) == text


def test_at_most_100_bytes_are_quoted() -> None:
    assert quoted(b"a" * 101) == "a" * 100
    assert text_of(b"a" * 101) == "a" * 101
    # A character is cut in the middle.
    assert quoted(b"a" * 99 + "é".encode()) == f"X'{'61' * 99}C3'"
