"""Times in their usual form are not matched with a pattern, and come out the same."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from sluice.core.decoding.json import conversions
from sluice.core.decoding.json.columns import columns_of

FORMS = {
    "date": ["2026-01-31", "0001-01-01", "9999-12-31"],
    "timestamp": ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.250Z", "2026-01-31T12:00:00.250001Z"],
    "timestamp_ntz": ["2026-01-31T12:00:00", "2026-01-31T12:00:00.250", "2026-01-31T12:00:00.250001"],
}
KINDS = [(kind, form) for kind, forms in FORMS.items() for form in forms]


def read(kind: str, texts: Sequence[str | None]) -> tuple[list[object], list[bool]]:
    (column,) = columns_of({"a": kind})
    values, is_odd = conversions.converted(column, pa.array(texts, pa.utf8()))
    return values.to_pylist(), is_odd.tolist()


def by_pattern(kind: str, texts: Sequence[str | None]) -> tuple[list[object], list[bool]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conversions, "_are_usual", lambda *_: False)
        return read(kind, texts)


@pytest.mark.parametrize(("kind", "form"), KINDS)
def test_usual_texts_need_no_pattern(kind: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Fewer are left to the reference.
    texts = [form, None, form] * 9
    expected = by_pattern(kind, texts)
    monkeypatch.setattr(conversions, "_PATTERNS", dict.fromkeys(FORMS))
    assert read(kind, texts) == expected
    assert not any(expected[1])


@pytest.mark.parametrize(("kind", "form"), KINDS)
def test_one_other_byte_is_seen_wherever_it_is(kind: str, form: str) -> None:
    for place in range(len(form)):
        for byte in "/:5 TZz":
            texts = [*[form] * 20, form[:place] + byte + form[place + 1 :], None]
            assert read(kind, texts) == by_pattern(kind, texts)
    others: list[list[str | None]] = [[None], [], ["", ""], [form, form + "0"], [form[1:], form]]
    others.append(["x" * len(form)] * 20)
    for other in others:
        assert read(kind, other) == by_pattern(kind, other)


def test_a_part_of_an_array() -> None:
    column = columns_of({"a": "date"})[0]
    texts = pa.array(["x", *["2026-01-31", None, "2026-02-01"] * 9, "y"])
    values, is_odd = conversions.converted(column, texts.slice(1, 27))
    assert [str(value) for value in values.to_pylist()] == ["2026-01-31", "None", "2026-02-01"] * 9
    assert not is_odd.any()
