"""Reasons of rejected rows, summed up."""

from __future__ import annotations

import tracemalloc

import pytest

from sluice.core.csv.columns.kinds import BOOLEAN, DATE, DECIMAL, ENUM, INSTANT, INT, LOCAL_TIME, LONG, Kind
from sluice.core.csv.form import Declared
from sluice.core.csv.layout import MORE_COLUMNS
from sluice.core.csv.summary import Rejected, each_reason, summary

DECLARED = Declared()


def of(*reasons: str) -> list[str]:
    return summary([Rejected(row, reason, row + 2) for row, reason in enumerate(reasons)], DECLARED)


def test_the_three_most_frequent_reasons_are_named_with_their_first_row() -> None:
    times = [f"column at: '{row}/31/2016 4:05' is not a time" for row in (1, 3, 5)]
    wide = "the row has 3 columns, the header names 2"
    found = of("column id: 'x' is not a long", *times, wide, wide, "column name is empty")
    assert len(found) == 4
    assert found[0].startswith(
        "3 rows (first: row 1, line 3): column at: '1/31/2016 4:05' is not a time; fix: "
    )
    assert found[1].startswith("2 rows (first: row 4, line 6): the row has 3 columns")
    assert found[2] == "1 row (row 0, line 2): column id: 'x' is not a long"
    assert found[3] == "and 1 more reason"


def test_the_first_row_is_that_of_the_first_object() -> None:
    rows = [
        Rejected(row, "column a is empty", row + 2, f"s3://b/{key}.csv") for key in "ca" for row in (9, 5)
    ]
    (found,) = summary(rows, DECLARED)
    assert found.startswith("4 rows (first: s3://b/a.csv row 5, line 7): ")


def test_of_a_long_address_begin_and_end_are_shown() -> None:
    (found,) = summary([Rejected(0, "column a is empty", 2, f"s3://bucket/{'x' * 900}/end.csv")], DECLARED)
    assert "(s3://bucket/xxx" in found
    assert "xxx/end.csv row 0, line 2)" in found
    assert len(found) < 250


def test_reasons_that_differ_in_numbers_alone_are_one() -> None:
    found = of(
        *(f"too large: the record's value has {n} bytes, the topic takes 9" for n in (10, 11, 12)),
        *(f"the row has {n} columns, the header names 2" for n in (4, 5)),
        *(
            f"the row has {n} columns, the header names 2, and {which} empty"
            for n, which in ((3, "the last is"), (4, "the last 2 are"))
        ),
        "the row has 1 columns, the header names 2",
    )
    assert found[0].startswith("3 rows (first: row 0, line 2): too large: the record's value has 10 bytes")
    assert found[1].startswith("2 rows (first: row 3, line 5): the row has 4 columns, the header names 2; ")
    assert found[2].startswith("2 rows (first: row 5, line 7): the row has 3 columns")
    assert found[3] == "and 1 more reason"


def test_a_row_counts_for_each_of_its_wrong_columns() -> None:
    both = "column a: '1,5' is not a number; column b is empty"
    found = of(both, "column b is empty", f"{both}; {MORE_COLUMNS}")
    assert [one.split(";")[0] for one in found] == [
        "3 rows (first: row 0, line 2): column b is empty",
        "2 rows (first: row 0, line 2): column a: '1,5' is not a number",
    ]


@pytest.mark.parametrize(
    "kind",
    [
        *(Kind(name) for name in (BOOLEAN, INT, LONG, "double", DATE, LOCAL_TIME, INSTANT)),
        Kind(DECIMAL, precision=9, scale=2),
        Kind(ENUM, ("RED", "GREEN")),
    ],
    ids=lambda kind: kind.name,
)
@pytest.mark.parametrize("cell", ["x", "", "a; column b is emptiness", "it's\n'2' is not", "; "])
def test_the_reasons_of_columns_are_told_apart_whatever_is_in_their_cells(kind: Kind, cell: str) -> None:
    one, two = f"column a: '{cell}' is not {kind.title}", "column b_2 is empty"
    assert each_reason(one) == [one]
    assert each_reason(f"{two}; {one}; {two}") == [two, one, two]
    assert each_reason(f"{one}; {one}; {MORE_COLUMNS}") == [one, one]


@pytest.mark.parametrize("reason", ["the row is not UTF-8", "too large: 5; column", "column a", ""])
def test_a_reason_that_is_of_no_column_is_one(reason: str) -> None:
    assert each_reason(reason) == [reason]


def test_types_are_named_in_the_words_of_the_stream() -> None:
    rows = [Rejected(0, "column a: '2.5' is not a long", 2)]
    assert "is not a long; fix: declare the column as a double or a decimal" in summary(rows, DECLARED)[0]
    (found,) = summary(rows, Declared(is_ddl=True))
    assert "is not a BIGINT; fix: declare the column as DOUBLE or DECIMAL(p, s)" in found


def test_long_cells_and_enums_are_cut() -> None:
    kind = Kind(ENUM, tuple(f"SYMBOL_{n}" for n in range(50))).title
    (found,) = of(f"column a: '{'x' * 79}' is not {kind}")
    assert f"'{'x' * 40}…' is not one of SYMBOL_0, " in found
    assert len(found) < 300


def test_cells_of_one_column_that_need_several_fixes_are_told_apart() -> None:
    rows = [
        Rejected(row, f"column day: '{cell}' is not a date", row + 2)
        for row, cell in enumerate(("31.6.2026", "5/31/2026", "31.6.2025", "6/30/2026", "5/31/2025"))
    ]
    found = summary(rows, DECLARED)
    assert found[0].startswith(
        "3 rows (first: row 1, line 3): column day: '5/31/2026' is not a date; fix: declare"
    )
    assert found[1].startswith(
        "2 rows (first: row 0, line 2): column day: '31.6.2026' is not a date; fix: correct"
    )


def test_more_reasons_than_are_shown_are_found_by_a_query() -> None:
    rows = [Rejected(row, f"column c{row} is empty", row + 2) for row in range(5)]
    assert (
        summary(rows, DECLARED, 'sluice sql "select reason"')[3]
        == 'and 2 more reasons: sluice sql "select reason"'
    )


def test_behind_the_first_rows_no_fix_is_looked_for() -> None:
    texts = ["5/31/2026"] * 200 + ["31.6.2026"] * 3
    (found,) = of(*(f"column day: '{cell}' is not a date" for cell in texts))
    assert found.startswith("203 rows (first: row 0")


def test_of_many_rows_few_are_kept_whatever_their_order_is() -> None:
    """A pod that validates a load with too many rejected rows is to say why, and not to be killed."""
    count = 20_000
    rows = (
        Rejected(row, f"column day: '{row}.6.2026' is not a date", row + 2) for row in reversed(range(count))
    )
    tracemalloc.start()
    found = summary(rows, DECLARED)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "rows (first: row 0, line 2): column day: '0.6.2026' is not a date" in found[0]
    assert peak < 3_000_000
