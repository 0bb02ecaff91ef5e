"""Lines above a file's header are never taken for it."""

from __future__ import annotations

import pytest

from sluice.core.csv.inference import Inferred, NotInferred, infer

ROWS = "".join(f"{number},n{number}\n" for number in range(50))


def _infer(text: str) -> Inferred:
    return infer(iter([text.encode()]))


def test_a_comment_as_wide_as_the_rows_is_no_header() -> None:
    for comment in ("# exported by Foo, see wiki", "# Foo 2.1, UTC"):
        found = _infer(f"{comment}\nid,name\n{ROWS}")
        assert found.columns == {"id": "BIGINT", "name": "STRING"}
        assert found.declared == {"comment": "#"}


def test_a_header_that_begins_with_a_number_sign_stays_one() -> None:
    assert _infer(f"#id,name\n{ROWS}").columns == {"id": "BIGINT", "name": "STRING"}


def test_a_title_as_wide_as_the_rows_is_refused() -> None:
    with pytest.raises(NotInferred, match="'id,name' looks like the header"):
        _infer(f"Export,May\nid,name\n{ROWS}")


def test_a_file_of_mostly_odd_rows_is_refused_with_the_first() -> None:
    with pytest.raises(NotInferred, match=r"51 of 51 rows .* first row 1: 'id,name'"):
        _infer(f"Report of May 2024\nid,name\n{ROWS}")
