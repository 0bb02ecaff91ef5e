"""Records into Avro bodies: as another library reads them, and why others are rejected."""

from __future__ import annotations

import io
import random
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from sluice.core.csv import layout as layout_module
from sluice.core.csv.advice import fix
from sluice.core.csv.columns.kinds import UnsupportedType
from sluice.core.csv.form import Dialect, Rules
from sluice.core.csv.header import InvalidHeader, names_of
from sluice.core.csv.layout import Layout
from sluice.core.csv.records.cut import cut
from tests.support.raising import raising

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}
TYPES: dict[str, Any] = {
    "id": "long",
    "text": ["null", "string"],
    "flag": ["boolean", "null"],
    "small": ["null", "int"],
    "real": "double",
    "single": ["null", "float"],
    "day": ["null", {"type": "int", "logicalType": "date"}],
    "at": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
    "local": ["null", {"type": "long", "logicalType": "local-timestamp-micros"}],
    "amount": ["null", DECIMAL],
    "kind": ["null", {"type": "enum", "name": "Kind", "symbols": ["a", "b"]}],
    "rest": ["null", {"type": "map", "values": "string"}],
}
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "R",
    "fields": [{"name": name, "type": kind} for name, kind in TYPES.items()],
}
RULES = Rules(time_formats=("yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"))


def load(
    text: str | bytes,
    schema: dict[str, Any] = SCHEMA,
    rest: str = "rest",
    dialect: Dialect | None = None,
    most: int = 10**6,
) -> tuple[list[Any], dict[int, str]]:
    """The rows that are good, read by fastavro, and the reasons of the others."""
    dialect = dialect or Dialect()
    data = text if isinstance(text, bytes) else text.encode()
    header = cut(data, dialect, is_end=True)
    names = names_of(header[0], dialect, "s3://b/k.csv")
    layout = Layout.of(names, schema, rest, RULES, dialect, "s3://b/k.csv", most, " (limit)")
    records = cut(data[header.nexts[0] :], dialect, True, layout.width)
    rows = layout.rows(records)
    assert len(rows.bodies) + len(rows.reasons) == len(records)
    return [decoded(body.as_py(), schema) for body in rows.bodies], rows.reasons


def decoded(body: bytes, schema: dict[str, Any]) -> Any:
    stream = io.BytesIO(body)
    value = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), None)
    assert stream.read() == b""
    return value


HEADER = "id,text,flag,small,real,single,day,at,local,amount,kind,x.y,z\n"


def test_a_value_of_each_type_and_a_null_of_each() -> None:
    rows, reasons = load(
        HEADER
        + '-1,"a ""b"", c",true,-5,1.5,0.5,1969-12-31,2026-01-31T12:00:00.250+01:00,'
        + "2018-02-08 05:07:37,-1.5,b,p,q\n"
        + "9223372036854775807,,,,-0.0,,,,,,,,\n"
        + f"0,{'ä' * 500},no,2147483647,1e300,-2,2026-01-31,,0001-01-01 00:00:00,12345678901234567.125,a,,q\n"
    )
    assert reasons == {}
    assert rows[0] == {
        "id": -1, "text": 'a "b", c', "flag": True, "small": -5, "real": 1.5, "single": 0.5,
        "day": date(1969, 12, 31), "at": datetime(2026, 1, 31, 11, 0, 0, 250_000, UTC),
        "local": datetime(2018, 2, 8, 5, 7, 37), "amount": Decimal("-1.500"), "kind": "b",  # noqa: DTZ001
        "rest": {"x.y": "p", "z": "q"},
    }  # fmt: skip
    assert rows[1] == {"id": 2**63 - 1, "real": 0.0} | {n: None for n in TYPES if n not in ("id", "real")}
    assert rows[2]["text"] == "ä" * 500
    assert rows[2]["amount"] == Decimal("12345678901234567.125")
    assert rows[2]["rest"] == {"z": "q"}
    assert rows[2]["local"] == datetime(1, 1, 1)  # noqa: DTZ001


@pytest.mark.parametrize(
    ("value", "size"),
    [
        *[("0", 1), ("0.127", 1), ("-0.128", 1), ("0.128", 2), ("-0.129", 2), ("32.767", 2), ("-32.768", 2)],
        *[("32.768", 3), ("-99999999999999999.999", 9)],
    ],
)
def test_decimals_have_as_few_bytes_as_tell_their_sign(value: str, size: int) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "d", "type": DECIMAL}]}
    rows, reasons = load(f"d\n{value}\n", schema, "", most=1 + size)
    assert reasons == {}
    assert rows == [{"d": Decimal(value)}]
    assert load(f"d\n{value}\n", schema, "", most=size)[0] == []


SIMPLE: dict[str, Any] = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}


def test_each_row_that_is_rejected_has_its_own_reason_and_the_others_are_good() -> None:
    text = b'id,note\n1,a\n2\n3,"b\nx,c\n'
    rows, reasons = load(b'id,note\n1,a\n2\nx,c\n"4"5,d\n,e\n6,\xff\n7,f,g\n8,"h\ni"\n9,"j', SIMPLE, "")
    assert [row["id"] for row in rows] == [1, 8]
    assert rows[1]["note"] == "h\ni"
    assert reasons == {
        1: "the row has 1 columns, the header names 2",
        2: "column id: 'x' is not a long",
        3: "text follows the quote that closes a cell",
        4: "column id is empty",
        5: "the row is not UTF-8",
        6: "the row has 3 columns, the header names 2",
        8: "a quote opens a cell and is never closed, so the rest of the file is in it",
    }
    assert load(text, SIMPLE, "")[0] == [{"id": 1, "note": "a"}]


def test_a_row_with_several_wrong_columns_names_each_up_to_a_number() -> None:
    kinds = dict.fromkeys("abcdefg", "long")
    schema = {"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in kinds.items()]}
    rows, reasons = load("a,b,c,d,e,f,g\n1,x,3,,5,6,y\n1,2,3,4,5,6,7\np,q,r,s,t,u,v\n1,2,3\n", schema, "")
    assert [row["a"] for row in rows] == [1]
    assert reasons == {
        0: "column b: 'x' is not a long; column d is empty; column g: 'y' is not a long",
        2: "; ".join(f"column {a}: '{b}' is not a long" for a, b in zip("abcde", "pqrst", strict=True))
        + "; and more columns",
        3: "the row has 3 columns, the header names 7",
    }


def test_cells_behind_the_last_column_are_ignored_if_declared_and_empty() -> None:
    text = "id,note,,\n1,a,,\n2,b\n3,c,,x\n4,d,,,,\n,,,,,,\n"
    with raising(InvalidHeader, "column 3 of the header has no name", "trailing_empty_columns = true"):
        load(text, SIMPLE, "")
    rows, reasons = load(text, SIMPLE, "", Dialect(trailing_empty=True))
    assert [row["id"] for row in rows] == [1, 2, 4]
    assert reasons == {2: "the row has 4 columns, the header names 2"}


def test_a_row_of_more_empty_cells_than_the_header_is_one() -> None:
    rows, reasons = load("id,note\n1,a\n,\n,,\n", SIMPLE, "")
    assert (len(rows), reasons) == (
        1,
        {1: "the row has 3 columns, the header names 2, and the last is empty"},
    )


@pytest.mark.parametrize("extra", [0, 1])
def test_a_row_is_too_large_by_the_bytes_of_its_body_alone(extra: int) -> None:
    # One byte of the id, one of the branch, two of the length.
    rows, reasons = load(f"id,note\n1,{'x' * (996 + extra)}\n", SIMPLE, "", most=1000)
    assert len(rows) == 1 - extra
    if extra:
        assert reasons == {0: "too large: the record's value has 1001 bytes, the topic takes 1000 (limit)"}


def test_names_are_compared_without_case_blanks_and_signs() -> None:
    schema = {
        **SIMPLE,
        "fields": [{"name": "trip_id", "type": "long"}, {"name": "Note", "type": ["null", "string"]}],
    }
    rows, _ = load("\ufeff NOTE ,Trip-ID \nx,7\n".removeprefix("\ufeff"), schema, "")
    assert rows == [{"trip_id": 7, "Note": "x"}]


def test_a_column_with_the_name_of_the_map_is_an_entry_of_it() -> None:
    rows, _ = load("id,real,Rest,other\n1,2,keep,\n", SCHEMA)
    assert rows[0]["rest"] == {"Rest": "keep"}


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("note", ["column 'id' is required and missing"]),
        ("id;note", ["'id' is required", '[csv] separator = ";"']),
        ("id,note,new", ["'new' of the header is not in the schema", "extra_columns"]),
        ("id,note,NOTE", ["'note' and 'NOTE'", "twice"]),
        ("id,,note", ["column 2 of the header has no name"]),
        ('id,"note', ["never closed"]),
        ("sep=;", ["Excel's 'sep=;'", "no header"]),
        ("i\0d\0,note", ["UTF-16", "encoding"]),
        ("id,note\x1b[2J" + "x" * 9000, ["not in the schema"]),
    ],
)
def test_a_header_that_cannot_be_right_is_refused(header: str, words: list[str]) -> None:
    with raising(InvalidHeader, "s3://b/k.csv", *words) as refusal:
        load(f"{header}\n1,2\n", SIMPLE, "")
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 700


@pytest.mark.parametrize("kind", ["bytes", {"type": "array", "items": "int"}, ["null", "int", "string"]])
def test_a_field_that_no_cell_can_be_is_refused(kind: Any) -> None:
    with pytest.raises(UnsupportedType, match="field 'id' has"):
        load("id\n1\n", {**SIMPLE, "fields": [{"name": "id", "type": kind}]}, "")


def test_a_header_of_which_no_column_is_known_is_refused() -> None:
    """All would be null, and all that is there in the map."""
    schema = {**SIMPLE, "fields": [SIMPLE["fields"][1], {"name": "rest", "type": TYPES["rest"]}]}
    with raising(InvalidHeader, "no column of the header is one of the schema", 'separator = ";"'):
        load("note;b\n1;2\n", schema)
    assert load("b,NOTE\n1,2\n", schema)[0] == [{"note": "2", "rest": {"b": "1"}}]
    only = {**schema, "fields": schema["fields"][1:]}
    assert load("b\n1\n", only)[0] == [{"rest": {"b": "1"}}]


def test_rows_of_any_number_of_empty_cells_are_typed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each width, or each cell behind the header, Arrow would be called again, or make a column."""
    calls, usual = list[int](), layout_module.columns

    def counted(data: bytes, width: int, count: int, dialect: Dialect) -> list[Any]:
        calls.append(width)
        return usual(data, width, count, dialect)

    monkeypatch.setattr(layout_module, "columns", counted)
    lines, expected, wrong = ["id,note"], [], {}
    for number, behind in enumerate(
        ["", ",", ',""', ", ,\t", ",x", ',"x,"', "," * 3000, ',"\n",', ',""""', ","]
    ):
        lines.append(f'{number},"n, {number}"{behind}')
        if behind in (",x", ',"x,"', ',""""'):
            wrong[number] = "the row has 3 columns, the header names 2"
        else:
            expected.append({"id": number, "note": f"n, {number}"})
    for end in ("\n", ""):
        rows, reasons = load("\n".join(lines) + end, SIMPLE, "", Dialect(trailing_empty=True))
        assert (rows, reasons) == (expected, wrong)
    assert calls == [2, 2]
    one = {**SIMPLE, "fields": SIMPLE["fields"][1:]}
    assert load("note\na\n,,", one, "", Dialect(trailing_empty=True, skip_blank=False))[0] == [
        {"note": "a"},
        {"note": None},
    ]


def test_rows_are_rejected_without_reasons_if_no_one_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b'1,a\n2\n3,"b\nx",c\n"4"5,d\nx,e\n,f\n6,\xff\n7,' + b"g" * 100 + b"\n"
    chosen = Layout.of(["id", "note"], SIMPLE, "", RULES, Dialect(), "x", 50)
    records = cut(data, Dialect(), True, 2)
    full = chosen.rows(records)
    for name in ("_says_width", "_says_value", "_says_empty"):
        monkeypatch.setattr(Layout, name, lambda *_: pytest.fail("a reason was written"))
    found = chosen.rows(records, with_reasons=False)
    assert (found.bodies, found.is_good.tolist(), found.reasons) == (full.bodies, full.is_good.tolist(), {})
    assert sorted(full.reasons) == [1, 2, 3, 4, 5, 6, 7]


def by_hand(row: str, dialect: Dialect) -> list[tuple[str, str, bool]]:
    """Each cell of one row as it is written, its text, and whether it stands in quotes: a character after the
    other, as RFC 4180 says."""
    cells, written, text, in_quotes, is_quoted, at = [], "", "", False, False, 0
    while at <= len(row):
        char = row[at : at + 1]
        if char in (dialect.separator, "") and not in_quotes:
            cells.append((written, text, is_quoted))
            written, text, is_quoted = "", "", False
        elif dialect.escape and char == dialect.escape:
            written, text, at = written + row[at : at + 2], text + row[at + 1], at + 1
        elif char == dialect.quote and not in_quotes and not written:
            in_quotes = is_quoted = True
        elif char == dialect.quote and in_quotes and row[at + 1 : at + 2] == dialect.quote:
            written, text, at = written + char, text + char, at + 1
        elif char == dialect.quote and in_quotes:
            in_quotes = False
        else:
            written, text = written + char, text + char
        at += 1
    return cells


NULLS = ("", "NA", "\\N", "N\\A")
WRITTEN = [
    "NA",
    '"NA"',
    "\\N",
    '"\\N"',
    "\\NA",
    "N\\A",
    '"N\\A"',
    "N",
    "NAA",
    "",
    '""',
    " NA ",
    '" NA "',
    "x\\,NA",
]


def null_rows(seed: int) -> list[list[str]]:
    chosen = random.Random(seed)  # noqa: S311
    return [[str(n), *chosen.choices(WRITTEN, k=3)] for n in range(60)]


@pytest.mark.parametrize("escape", ["", "\\"], ids=["no escape", "escape"])
@pytest.mark.parametrize("with_quoted", [False, True], ids=["", "quoted nulls"])
@pytest.mark.parametrize("trim", [False, True], ids=["", "trim"])
def test_a_null_text_counts_as_it_is_written_and_without_quotes(
    escape: str, with_quoted: bool, trim: bool
) -> None:
    dialect = Dialect(escape=escape)
    rules = Rules(null_texts=NULLS, quoted_nulls=with_quoted, trim=trim)
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": n, "type": ["null", "string"]} for n in "iabc"],
    }
    layout = Layout.of(list("iabc"), schema, "", rules, dialect, "x", 10**6)
    for seed in range(20):
        # Also blocks without a quote or an escape, which are read without looking at how they are written.
        rows = [
            row
            for row in null_rows(seed)
            if (escape or "x\\,NA" not in row) and (seed % 2 or '"' not in "".join(row))
        ]
        text = "\n".join(",".join(row) for row in rows) + "\n"
        found = layout.rows(cut(text.encode(), dialect, True, 4))
        assert not found.reasons
        for row, body in zip(rows, found.bodies, strict=True):
            expected = list[str | None]()
            for written, cell, is_quoted in by_hand(",".join(row), dialect):
                bare, shown = (written.strip(), cell.strip()) if trim else (written, cell)
                is_null = not shown or (bare in NULLS and (with_quoted or not is_quoted))
                expected.append(None if is_null else shown)
            assert list(decoded(body.as_py(), schema).values()) == expected, row


def test_a_null_text_in_quotes_is_no_number_and_its_fix_is_named() -> None:
    rules, schema = Rules(null_texts=("", "NA")), {"fields": [{"name": "a", "type": ["null", "long"]}]}
    data = b'"NA"\nNA\n NA\n""\n"1"\n'
    records = cut(data, Dialect(skip_blank=False), True, 1)
    strict = Layout.of(["a"], schema, "", rules, Dialect(), "x", 99).rows(records)
    assert strict.reasons == {0: "column a: 'NA' is not a long"}
    assert "quoted_nulls = true" in fix(strict.reasons[0])
    rules = replace(rules, quoted_nulls=True)
    assert not Layout.of(["a"], schema, "", rules, Dialect(), "x", 99).rows(records).reasons
