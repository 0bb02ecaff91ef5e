"""Lines above a file's header are never taken for it."""

from __future__ import annotations

import io

import pytest

from sluice.clients.s3.csv_rows import data_rows
from sluice.config.sections.csv import Csv
from sluice.core.csv.header import names_of
from sluice.core.csv.inference import NotInferred, infer
from sluice.core.csv.inferred_types import Inferred
from sluice.core.csv.records.blocks import begin

ROWS = "".join(f"{number},n{number}\n" for number in range(50))
MORE = "".join(f"{number},n{number},{number}.5\n" for number in range(50))


def _infer(text: str) -> Inferred:
    return infer(iter([text.encode()]))


@pytest.mark.parametrize(
    ("above", "lines"),
    [
        ("Report of May 2024\n", 1),
        ("Report of May 2024\n\n", 2),
        ('Report of "May\n\n', 2),
        ("Report, by Foo\r\nCustomer: 7\r\n\r\n", 3),
        ("\nReport,,\n,,\n", 3),
        # As wide as the rows.
        ("Export,May,2024\n", 1),
        ("Export,2024-05-01,x\n", 1),
        ("sep=,\n", 1),
    ],
)
def test_titles_are_lines_to_skip(above: str, lines: int) -> None:
    text = f"{above}id,name,x\n{MORE}".replace("\n", "\r\n" if "\r" in above else "\n").replace("\r\r", "\r")
    found = _infer(text)
    assert found.columns == {"id": "BIGINT", "name": "STRING", "x": "DOUBLE"}
    assert (found.declared, found.rows) == ({"skip_lines": lines}, 50)
    (doubt,) = found.doubts
    assert doubt.startswith(f"{lines} line{'s' * (lines > 1)} above the header, left out of each file")
    # Both parsers read it so.
    form = Csv(**found.declared).form
    header = begin(iter([text.encode()]), form, 1000)
    assert header is not None
    assert names_of(header.record, form.dialect, "x") == list(found.columns)
    assert data_rows(io.BytesIO(text.encode()), "x", form) == 50


def test_a_header_with_less_or_more_cells_than_rows_is_no_title() -> None:
    for text in ("a,b,c\n1,2,3,,\n4,5,6,,\n", "a,b,c,,\n1,2,3\n4,5,6\n", "a,b,c\n1,,\n2,,\n3,x,y\n"):
        found = _infer(text)
        assert list(found.columns) == ["a", "b", "c"]
        assert "skip_lines" not in found.declared


def test_a_comment_as_wide_as_the_rows_is_no_header() -> None:
    for comment in ("# exported by Foo, see wiki", "# Foo 2.1, UTC", "#Foo 2.1,2024-05-01"):
        found = _infer(f"{comment}\nid,name\n{ROWS}")
        assert found.columns == {"id": "BIGINT", "name": "STRING"}
        assert found.declared == {"comment": "#"}


def test_a_header_that_begins_with_a_number_sign_stays_one() -> None:
    assert _infer(f"#id,name\n{ROWS}").columns == {"id": "BIGINT", "name": "STRING"}
    found = _infer(f"# exported\n#id,name\n{ROWS}")
    assert (list(found.columns), found.declared) == (["id", "name"], {"skip_lines": 1})


def test_above_texts_a_number_sign_begins_a_name_and_with_a_blank_a_comment() -> None:
    names = "anna,berlin\ncarl,bonn\n"
    found = _infer(f"#id,name\n{names}")
    assert (list(found.columns), found.declared, found.rows) == (["id", "name"], {}, 2)
    assert 'declare comment = "#"' in found.doubts[0]
    found = _infer(f"# of May, by Foo\nid,name\n{names}")
    assert (list(found.columns), found.declared, found.rows) == (["id", "name"], {"comment": "#"}, 2)
    assert "taken for comments" in found.doubts[0]


def test_a_title_that_may_be_a_header_above_an_odd_row_is_refused() -> None:
    with pytest.raises(NotInferred, match="'id,name' looks like the header"):
        _infer(f"Export,May\nid,name\n{ROWS}")
