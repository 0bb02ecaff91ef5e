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
        # Alone, Arrow makes a zero of it.
        "1.5" + "0" * 60,
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


def expected(cell: str, kind: Kind) -> object:
    """The value of a cell by Python's decimal, or "rejected"."""
    exact = number(cell)
    if exact is None or (has_exponent(cell) and kind.name != "double"):
        return "rejected"
    if kind.name == "double":
        nearest = float(exact)
        return nearest if abs(nearest) != float("inf") and (nearest != 0 or exact == 0) else "rejected"
    if kind.name == "decimal":
        # As fractions, which have no precision of their own.
        fits = (Fraction(exact) * 10**kind.scale).denominator == 1
        return exact if fits and abs(Fraction(exact)) < 10 ** (kind.precision - kind.scale) else "rejected"
    bits = {"int": 32, "long": 64}[kind.name]
    fits = exact == exact.to_integral_value() and -(2 ** (bits - 1)) <= exact < 2 ** (bits - 1)
    return int(exact) if fits else "rejected"


def compare(cells: list[str], found: list[object], kind: Kind) -> None:
    for cell, value in zip(cells, found, strict=True):
        # As texts, which tell -0.0 from 0.0, and a double from a whole number.
        shown = repr(value) if kind.name == "double" else value
        right = expected(cell, kind)
        assert shown == (repr(right) if kind.name == "double" else right), cell


KINDS = [
    Kind("int"),
    Kind("long"),
    Kind("double"),
    *(Kind("decimal", (), p, s) for p, s in ((10, 2), (5, 0), (38, 10), (4, 4))),
]
BY_NAME = [f"{kind.name}{kind.precision or ''}" for kind in KINDS]


@pytest.mark.parametrize("is_alone", [False, True], ids=["together", "one by one"])
@pytest.mark.parametrize("kind", KINDS, ids=BY_NAME)
def test_numbers_are_those_of_pythons_decimal(kind: Kind, is_alone: bool) -> None:
    """Whatever stands beside it in its column, a text has the same value."""
    cells = [*EDGES, *texts(7)[-600:]] if is_alone else texts(7)
    compare(cells, [read([cell], kind)[0] for cell in cells] if is_alone else read(cells, kind), kind)


def generated(chosen: random.Random, count: int, odd: float) -> list[str]:
    """Numbers as files have them, of which some are written in an odd way, or are none."""
    found = []
    for _ in range(count):
        text = f"{chosen.randint(-(10 ** chosen.randint(1, 11)), 10 ** chosen.randint(1, 11))}"
        if chosen.random() < 0.4:
            text += "." + chosen.choice(["", "0", "5", "25", "00", "125", "50000", "9" * 9])
        if chosen.random() < odd:
            at = chosen.randint(0, len(text))
            put = chosen.choice([*"+-.eExXdf_ ,\t\0", "0" * 45, "e5", "E-3", "NaN", "x1"])
            text = text[:at] + put + text[at:]
        found.append(text)
    return found


@pytest.mark.parametrize("kind", KINDS, ids=BY_NAME)
def test_of_a_hundred_thousand_cells_each_has_the_same_value_in_any_column(kind: Kind) -> None:
    """Columns without an odd text, with some, and of them alone are each read in a way of their own."""
    chosen = random.Random(11)  # noqa: S311
    for odd in (0, 0.002, 0.1, 1):
        for _ in range(25):
            cells = generated(chosen, 1000, odd)
            compare(cells, read(cells, kind), kind)


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
