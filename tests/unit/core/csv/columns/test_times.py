"""Texts of times by patterns, against Python's datetime."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest

from sluice.core.csv.columns.kinds import DATE, INSTANT, LOCAL_TIME, Kind
from sluice.core.csv.columns.patterns import UnknownPattern, patterns
from sluice.core.csv.columns.values import Converter
from sluice.core.csv.form import Rules

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
# Pattern, and Python's format of the texts that are written for it.
FORMATS = [
    ("yyyy-MM-dd HH:mm:ss", "%Y-%m-%d %H:%M:%S"),
    ("MM/dd/yyyy hh:mm:ss a", "%m/%d/%Y %I:%M:%S %p"),
    ("M/d/yyyy H:mm", "%-m/%-d/%Y %-H:%M"),
    ("d.M.yyyy H:m:s", "%-d.%-m.%Y %-H:%-M:%-S"),
    ("dd-MMM-yyyy HH:mm:ss", "%d-%b-%Y %H:%M:%S"),
    ("yyyy-MM-dd'T'HH:mm:ss.SSSSSS", "%Y-%m-%dT%H:%M:%S.%f"),
    ("yyyyMMddHHmm", "%Y%m%d%H%M"),
]


def read(cells: list[str | None], formats: list[str], kind: str = LOCAL_TIME) -> list[object]:
    values, wrong = Converter(Rules(time_formats=tuple(formats))).convert(
        pa.array(cells, pa.string()), Kind(kind)
    )
    found: list[object] = []
    for value, bad in zip(values.to_pylist(), wrong, strict=True):
        if bad or value is None:
            found.append("rejected" if bad else None)
        elif kind == DATE:
            found.append(date(1970, 1, 1) + timedelta(value))
        else:
            found.append(EPOCH + timedelta(microseconds=value))
    return found


@pytest.mark.parametrize(("pattern", "python"), FORMATS)
def test_a_time_is_read_as_it_was_written(pattern: str, python: str) -> None:
    chosen = random.Random(pattern)  # noqa: S311
    times = [
        datetime(chosen.randint(1, 9999), chosen.randint(1, 12), chosen.randint(1, 28))  # noqa: DTZ001
        + timedelta(microseconds=chosen.randrange(86_400_000_000))
        for _ in range(300)
    ]
    cells = [time.strftime(python.replace("%Y", f"{time.year:04}")) for time in times]
    # What the text does not say is zero.
    expected = [datetime.strptime(cell, python.replace("%-", "%")) for cell in cells]  # noqa: DTZ007
    assert read([*cells], [pattern]) == expected
    assert read([*cells, None, ""], [*(p for p, _ in FORMATS), pattern])[-2:] == [None, None]


@pytest.mark.parametrize(("pattern", "python"), FORMATS)
def test_a_text_that_was_changed_is_another_time_or_rejected(pattern: str, python: str) -> None:
    """Never a time that Python does not read of it, when it reads digits as the pattern wants them."""
    chosen = random.Random(python)  # noqa: S311
    good = datetime(2018, 11, 12, 13, 14, 15, 160_000).strftime(python)  # noqa: DTZ001
    cells = []
    for _ in range(400):
        chars = list(good)
        for _ in range(chosen.randint(1, 2)):
            chars[chosen.randrange(len(chars))] = chosen.choice("0123456789-/:. TAPMn\u0661")
        cells.append("".join(chars))
    for cell, found in zip(cells, read([*cells], [pattern]), strict=True):
        if found == "rejected":
            continue
        assert found == datetime.strptime(cell.strip(), python.replace("%-", "%")), cell  # noqa: DTZ007


def test_what_is_no_time_is_rejected() -> None:
    wrong = [
        *("2019-02-29 00:00:00", "1900-02-29 00:00:00", "0000-01-01 00:00:00", "-001-01-01 00:00:00"),
        *("2018-13-01 00:00:00", "2018-12-31 24:00:00", "2018-12-31 23:60:00", "2018-12-31 23:59:60"),
        *("2018-2-8 5:7:37", "2018-02-08T05:07:37", "2018-02-08 05:07:37Z", "12018-02-08 05:07:37", "x"),
    ]
    assert read([*wrong], ["yyyy-MM-dd HH:mm:ss"]) == ["rejected"] * len(wrong)
    assert (
        read(["02/08/2018 00:07:37 AM", "02/08/2018 13:07:37 PM"], ["MM/dd/yyyy hh:mm:ss a"])
        == ["rejected"] * 2
    )
    assert read(["2000-02-29 23:59:59", " 2018-02-08 05:07:37 "], ["yyyy-MM-dd HH:mm:ss"]) == [
        datetime(2000, 2, 29, 23, 59, 59),  # noqa: DTZ001
        datetime(2018, 2, 8, 5, 7, 37),  # noqa: DTZ001
    ]


@pytest.mark.parametrize(
    ("pattern", "cell", "expected"),
    [
        ("yyyy-MM-dd'T'HH:mm:ssXXX", "2026-01-31T12:00:00+01:00", datetime(2026, 1, 31, 11, tzinfo=UTC)),
        ("yyyy-MM-dd'T'HH:mm:ssXXX", "2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("yyyy-MM-dd HH:mm:ss Z", "2026-01-31 12:00:00 -0530", datetime(2026, 1, 31, 17, 30, tzinfo=UTC)),
        ("yyyy-MM-dd HH:mm[:ss][.SSS]X", "2026-01-31 12:00-05", datetime(2026, 1, 31, 17, tzinfo=UTC)),
        (
            "yyyy-MM-dd HH:mm[:ss][.SSS]X",
            "2026-01-31 12:00:01.500Z",
            datetime(2026, 1, 31, 12, 0, 1, 500_000, UTC),
        ),
    ],
)
def test_an_instant_has_a_zone(pattern: str, cell: str, expected: datetime) -> None:
    assert read([cell], [pattern], INSTANT) == [expected.replace(tzinfo=None)]
    assert read([cell], [pattern], LOCAL_TIME) == ["rejected"]


@pytest.mark.parametrize("zone", ["+18:01", "-18:59", "+19:00", "+01:60"])
def test_a_zone_ends_at_18_hours(zone: str) -> None:
    pattern = "yyyy-MM-dd'T'HH:mm:ssXXX"
    assert read([f"2026-01-31T12:00:00{zone}"], [pattern], INSTANT) == ["rejected"]
    assert read(["2026-01-31T18:00:00+18:00"], [pattern], INSTANT) == [datetime(2026, 1, 31)]  # noqa: DTZ001


def test_a_date_has_no_clock() -> None:
    formats = ["yyyy-MM-dd HH:mm:ss", "M/d/yyyy", "dd.MM.yyyy"]
    assert read(["1/31/2016", "31.01.2016", "2016-01-31 00:00:00", "31/1/2016"], formats, DATE) == [
        date(2016, 1, 31), date(2016, 1, 31), "rejected", "rejected",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "pattern",
    ["", "yyyy-MM", "yyyy-MM-dd QQ", "yyyy-MM-dd yyyy", "yyyy-MM-dd mm", "yyyyy-MM-dd", "yyyy-MM-dd XXX"],
)
def test_a_pattern_that_says_no_date_is_unknown(pattern: str) -> None:
    with pytest.raises(UnknownPattern):
        patterns(pattern)
