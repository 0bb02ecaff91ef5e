"""Texts of numbers against Python's decimal: the same number, or rejected."""

from __future__ import annotations

import itertools
import random
import re
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest

from sluice.core.csv.columns.kinds import Kind
from sluice.core.csv.columns.values import Converter
from sluice.core.csv.form import Rules

# As declared, in Python's words.
GRAMMAR = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?", re.ASCII)
SHORT = ["".join(one) for n in range(1, 4) for one in itertools.product("01.-+eExd", repeat=n)]
EDGES = [
    *(
        "2147483647",
        "-2147483648",
        "2147483648",
        "-2147483649",
        "9223372036854775807",
        "-9223372036854775808",
    ),
    *(
        "9223372036854775808",
        "2147483647.0",
        "9007199254740993",
        "9007199254740993.0",
        "2.9999999",
        "3.0000001",
    ),
    *(
        "2.99999999999999999999999",
        "0.9999999999",
        "1e3",
        "1E+12",
        "1.23457E+12",
        "5f",
        "5d",
        "1D",
        "0x10",
        "0x1p3",
    ),
    *(
        "１２",
        "1_0",
        "1,5",
        "(5.00)",
        "Infinity",
        "-inf",
        "nan",
        "NaN",
        "1e308",
        "1e309",
        "-1e309",
        "1e-400",
        "5e-324",
    ),
    *(
        "0.0000e-999",
        "0.1000000000000000055511151231257827",
        "00012",
        "+5",
        "-0",
        "-0.0",
        " 7 ",
        "\t7",
        "7 7",
        "1\0",
    ),
    *(
        "\u00a01",
        "1" * 40,
        "0" * 40 + "1",
        "1." + "0" * 60,
        "0.5" + "0" * 60,
        "99999999.99",
        "999999999.99",
        "1.005",
    ),
    *("--1", "+-1", "1e", "e1", ".", "-.", "+.e1", "1.5.2", "١", "½", "1 000", "1'000", "12345678901234567"),
]


def texts(seed: int) -> list[str]:
    chosen = random.Random(seed)  # noqa: S311
    drawn = [f"{chosen.randint(-(10**n), 10**n)}" for n in range(1, 22) for _ in range(8)]
    drawn += [f"{chosen.uniform(-1, 1) * 10 ** chosen.randint(-30, 30)!r}" for _ in range(200)]
    drawn += [f"{chosen.randint(-99999, 99999) / 100:.2f}" for _ in range(200)]
    return [*SHORT, *EDGES, *drawn]


def read(cells: list[str], kind: Kind, rules: Rules | None = None) -> list[object]:
    """The value of each; "rejected" in the place of one that has none."""
    values, wrong = Converter(rules or Rules()).convert(pa.array(cells, pa.string()), kind)
    return ["rejected" if bad else value for value, bad in zip(values.to_pylist(), wrong, strict=True)]


def number(text: str) -> Decimal | None:
    bare = text.strip(" \t")
    return Decimal(bare) if GRAMMAR.fullmatch(bare) else None


def has_exponent(text: str) -> bool:
    return "e" in text.lower()


@pytest.mark.parametrize("is_alone", [False, True], ids=["together", "one by one"])
@pytest.mark.parametrize(("name", "bits"), [("int", 32), ("long", 64)])
def test_whole_numbers(name: str, bits: int, is_alone: bool) -> None:
    """Whatever stands beside it in its column, a text has the same value."""
    cells = texts(bits)[-700:] if is_alone else texts(bits)
    found = [read([cell], Kind(name))[0] for cell in cells] if is_alone else read(cells, Kind(name))
    for cell, value in zip(cells, found, strict=True):
        exact = number(cell)
        fits = exact is not None and exact == exact.to_integral_value() and not has_exponent(cell)
        fits = fits and -(2 ** (bits - 1)) <= exact < 2 ** (bits - 1)
        assert value == (int(exact) if fits and exact is not None else "rejected"), cell


def test_doubles() -> None:
    cells = texts(3)
    for cell, value in zip(cells, read(cells, Kind("double")), strict=True):
        exact = number(cell)
        nearest = None if exact is None else float(exact)
        fits = nearest is not None and abs(nearest) != float("inf") and (nearest != 0 or exact == 0)
        assert repr(value) == (repr(nearest) if fits else "'rejected'"), cell


@pytest.mark.parametrize(("precision", "scale"), [(10, 2), (5, 0), (38, 10), (4, 4)])
def test_decimals(precision: int, scale: int) -> None:
    cells = texts(precision)
    for cell, value in zip(cells, read(cells, Kind("decimal", (), precision, scale)), strict=True):
        exact = None if has_exponent(cell) else number(cell)
        # As fractions, which have no precision of their own.
        fits = exact is not None and (Fraction(exact) * 10**scale).denominator == 1
        fits = fits and abs(Fraction(exact)) < 10 ** (precision - scale)  # type: ignore[arg-type]
        assert value == (exact if fits else "rejected"), cell


def test_with_a_decimal_comma_a_point_is_none() -> None:
    cells = ["1,5", "1.5", "1.234,5", "1,2,3", "-,5", "7", ""]
    found = read(cells, Kind("double"), Rules(decimal_comma=True))
    assert found == [1.5, "rejected", "rejected", "rejected", -0.5, 7.0, None]


def test_nulls_booleans_and_enums() -> None:
    rules = Rules(null_texts=("", "\\N", "NA"))
    assert read(["NA", " NA ", "\\N", "1", "", "  "], Kind("long"), rules) == [
        None,
        None,
        None,
        1,
        None,
        None,
    ]
    assert read(["NA", " NA ", "", " "], Kind("text"), rules) == [None, " NA ", None, " "]
    assert read(["NA", " NA ", " x "], Kind("text"), Rules(null_texts=("NA",), trim=True)) == [
        None,
        None,
        "x",
    ]
    assert read(["TRUE", "f", "No", " y ", "2", "", "ja"], Kind("boolean")) == [
        True, False, False, True, "rejected", None, "rejected",
    ]  # fmt: skip
    assert read(["Y", "N", "y", ""], Kind("enum", ("Y", "N"))) == [0, 1, "rejected", None]


@pytest.mark.parametrize("kind", ["date", "local time", "instant", "boolean", "double", "long", "decimal"])
def test_an_empty_cell_of_no_text_is_null_whatever_stands_beside_it(kind: str) -> None:
    rules = Rules(null_texts=("NULL",))
    for beside in ("", "NULL", " x"):
        assert read(["", beside], Kind(kind, precision=9), rules)[0] is None
    assert read(["", " "], Kind("text"), rules) == ["", " "]


def test_a_float_is_the_nearest_one() -> None:
    cells = ["1.00000017881393432617187499", "1e-50", "1e-45", "1e39", "3.4028235e38", "0.000", "-0.0", " 2 "]
    # By way of a double, the first would be the next one, 1.0000002384185791.
    assert [repr(value) for value in read(cells, Kind("float"))] == [
        "1.0000001192092896", "'rejected'", "1.401298464324817e-45", "'rejected'", "3.4028234663852886e+38",
        "0.0", "-0.0", "2.0",
    ]  # fmt: skip
