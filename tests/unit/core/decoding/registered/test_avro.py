"""Avro records that name their schema by its id in a registry."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Sequence
from decimal import Decimal
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.decoding.avro.following.conflicts import Fix
from sluice.core.decoding.avro.following.written import schema_text
from sluice.core.decoding.avro.parsing import parsed, written
from sluice.core.decoding.by_reference import ByReference
from sluice.core.decoding.decoder import TOMBSTONE, Decoder, Malformed
from sluice.core.decoding.others.records import OthersRecords
from sluice.core.decoding.registered.avro import RegisteredAvro, RegisteredAvroKeys
from sluice.core.decoding.registered.unfollowed import Following
from sluice.core.record_batches.records import SCHEMA
from sluice.core.registry.errors import RefusedSchema, RegistryUnreachable
from tests.support.avro_bodies import Chance
from tests.support.raising import raising
from tests.support.registered import FakeSchemas, avro, encoded, framed

KEPT = "_unknown_fields"
HEADERS = SCHEMA.field("headers").type


def record(*fields: tuple[Any, ...]) -> dict[str, Any]:
    """A schema of fields: name, type, and perhaps a default."""
    named = [dict(zip(("name", "type", "default"), one, strict=False)) for one in fields]
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": named}


V1 = record(("id", "long"), ("note", ["null", "string"], None))
V2 = record(("id", "int"), ("price", "double"), ("note", ["null", "string"], None))
# The record's name is another one's, a field is missing, one is new.
V3 = {**record(("id", "long"), ("tags", {"type": "array", "items": "string"})), "name": "Other"}
NARROWING = record(("id", "string"))
WITHOUT = record(("note", ["null", "string"], None))


def make() -> FakeSchemas:
    return FakeSchemas(
        {
            1: avro(V1),
            2: avro(V2),
            3: avro(V3),
            4: avro(NARROWING),
            5: avro(WITHOUT),
            6: ("JSON", "{}"),
            7: RefusedSchema("schema id 7 is too large"),
            8: avro({"type": "map", "values": "int"}),
            9: ("AVRO", "{"),
            10: avro(record(("id", "long"), ("f", {"type": "fixed", "name": "F", "size": 10**10}))),
            11: ("PROTOBUF", 'syntax = "proto3";'),
        }
    )


def decoded(
    decoder: Decoder, values: Sequence[bytes | None], headers: Any = None
) -> list[dict[str, Any] | str]:
    """The row or the reason of each; both ways must agree, also for parts of arrays."""
    lists = pa.array([[], *(headers or [[]] * len(values))], HEADERS)[1:]
    found = decoder.decode(pa.array([b"\0", *values], pa.binary())[1:], lists)
    found.columns.validate(full=True)
    assert found.columns.schema == decoder.schema
    rows = zip(found.columns.to_pylist(), found.reasons.to_pylist(), strict=True)
    said = [row if reason is None else reason for row, reason in rows]
    for value, each, one in zip(values, lists.to_pylist(), said, strict=True):
        assert by_reference(decoder, value, [(pair["key"], pair["value"]) for pair in each]) == one
    return said


def by_reference(decoder: Decoder, value: bytes | None, headers: Any) -> dict[str, Any] | str:
    try:
        return dict(decoder.reference(value, headers))
    except Malformed as error:
        return str(error)


def test_records_of_several_schemas_keep_their_order_and_what_the_table_lacks() -> None:
    schemas = make()
    decoder = RegisteredAvro(json.dumps(V1), schemas, KEPT)
    sent = [
        encoded(schemas, 2, {"id": 1, "price": 0.5, "note": "a"}),
        encoded(schemas, 1, {"id": 2**40, "note": None}),
        encoded(schemas, 3, {"id": 3, "tags": ["x", 'y"']}),
        encoded(schemas, 1, {"id": 4, "note": "b"}),
        encoded(schemas, 2, {"id": 5, "price": -1e300, "note": None}),
    ]
    assert (
        decoded(decoder, sent * 20)
        == [
            {"id": 1, "note": "a", KEPT: '{"price":0.5}'},
            {"id": 2**40, "note": None, KEPT: None},
            {"id": 3, "note": None, KEPT: '{"tags":["x","y\\""]}'},
            {"id": 4, "note": "b", KEPT: None},
            {"id": 5, "note": None, KEPT: '{"price":-1e+300}'},
        ]
        * 20
    )
    assert sorted(schemas.asked) == [1, 2, 3], "each once"
    assert decoded(RegisteredAvro(json.dumps(V1), schemas), sent[:1]) == [{"id": 1, "note": "a"}]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, TOMBSTONE),
        (b"", "it is empty: no schema id"),
        (framed(99, b"\2\0"), "schema id 99 is not in the registry"),
        (framed(7, b"\2\0"), "schema id 7 is too large"),
        (framed(6, b"{}"), "schema id 6 is of type JSON, and the stream's format is avro"),
        (framed(11, b""), "schema id 11 is of type PROTOBUF, and the stream's format is avro"),
        (
            framed(4, b"\2x"),
            "schema id 4 cannot be read with the table's columns: id is long, and was string",
        ),
        (
            framed(5, b"\0"),
            "schema id 5 cannot be read with the table's columns: id is new, and has no default",
        ),
        (framed(8, b"\0"), "schema id 8 cannot be read with the table's columns: an Avro schema of type map"),
        (framed(9, b"\0"), "schema id 9 cannot be read with the table's columns: not an Avro schema"),
        (framed(10, b"\2"), "not an Avro body of Order"),
        (framed(1, b"\2"), "not an Avro body of Order"),
        (framed(1, b"\2\0\0"), "not an Avro body of Order"),
        (b"\2\0", "not Confluent's wire format"),
    ],
)
def test_a_record_that_cannot_be_read_is_rejected_and_its_neighbours_are_not(value: Any, said: str) -> None:
    decoder = RegisteredAvro(json.dumps(V1), make(), KEPT)
    good = framed(1, b"\2\0")
    found = decoded(decoder, [good, value, good])
    assert found[0] == found[2] == {"id": 1, "note": None, KEPT: None}
    assert said in found[1]


def test_a_registry_that_cannot_be_asked_fails_the_batch_and_what_is_known_needs_none() -> None:
    schemas = make()
    decoder = RegisteredAvro(json.dumps(V1), schemas, KEPT)
    decoded(decoder, [framed(1, b"\2\0")])
    schemas.schemas[1] = schemas.schemas[2] = RegistryUnreachable("no answer")
    decoded(decoder, [framed(1, b"\2\0")])
    headers = pa.array([[]] * 2, HEADERS)
    with raising(RegistryUnreachable, "no answer"):
        decoder.decode(pa.array([framed(1, b"\2\0"), framed(2, b"\2")]), headers)


def test_an_id_that_was_unknown_may_be_known_later() -> None:
    schemas = make()
    decoder = RegisteredAvro(json.dumps(V1), schemas, KEPT)
    assert decoded(decoder, [framed(50, b"\2\0")]) == ["schema id 50 is not in the registry"]
    schemas.schemas[50] = avro(V1)
    assert decoded(decoder, [framed(50, b"\2\0")]) == [{"id": 1, "note": None, KEPT: None}]


def test_a_schema_that_stands_for_more_than_a_stack_holds_is_a_reason() -> None:
    kind: Any = "int"
    names = []
    for number in range(3_000):
        names.append(
            (f"f{number}", {"type": "record", "name": f"R{number}", "fields": [{"name": "x", "type": kind}]})
        )
        kind = f"R{number}"
    schemas = FakeSchemas({1: avro(record(("id", "long"), *names))})
    (said,) = decoded(RegisteredAvro(json.dumps(V1), schemas, KEPT), [framed(1, b"\2")])
    assert said == "schema id 1 cannot be read: its types are nested too deeply"


def test_times_of_another_unit_are_the_same_times_and_decimals_of_another_scale_are_refused() -> None:
    def of(logical: str, **more: int) -> dict[str, Any]:
        kind = "bytes" if logical == "decimal" else "long"
        return record(("x", {"type": kind, "logicalType": logical, **more}))

    schemas = FakeSchemas(
        {
            1: avro(of("timestamp-millis")),
            2: avro(of("local-timestamp-micros")),
            3: avro(of("decimal", precision=9)),
        }
    )
    micros = RegisteredAvro(json.dumps(of("timestamp-micros")), schemas)
    first, second = decoded(micros, [framed(1, b"\2"), framed(2, b"\2")])
    assert isinstance(first, dict)
    assert first["x"].microsecond == 1000
    assert "x is timestamp-micros, and was local-timestamp-micros" in second
    scaled = RegisteredAvro(json.dumps(of("decimal", precision=9, scale=2)), schemas)
    assert decoded(scaled, [framed(3, b"\2\1")]) == [
        (
            "schema id 3 cannot be read with the table's columns: x is decimal(9, 2), and was decimal(9, 0): "
            "declare it DECIMAL(9, 0)"
        )
    ]


def test_a_decoder_is_pickled_with_what_it_was_made_of() -> None:
    for decoder in (RegisteredAvro(json.dumps(V1), make(), KEPT), RegisteredAvroKeys("key", make())):
        sent = [framed(1, b"\2\0")]
        again = pickle.loads(pickle.dumps(decoder))  # noqa: S301  (its own)
        assert decoded(again, sent) == decoded(decoder, sent)


@given(st.randoms(use_true_random=False))
def test_any_schemas_are_read_as_fastavro_reads_them(random: Random) -> None:
    chance = Chance(random)
    schemas = FakeSchemas({})
    current = chance.schema()
    earlier = [current, {**current, "fields": [*current["fields"], {"name": "more", "type": "long"}]}]
    sent: list[bytes] = []
    for _ in range(8):
        schema_id = random.randrange(2)
        schemas.schemas[schema_id + 1] = avro(earlier[schema_id])
        sent.append(framed(schema_id + 1, chance.body(earlier[schema_id])))
    decoder = RegisteredAvro(json.dumps(current), schemas, KEPT)
    found = decoder.decode(pa.array(sent), pa.array([[]] * len(sent), HEADERS))
    assert found.reasons.null_count == len(sent)
    for value, kept in zip(sent, found.columns.column(KEPT).to_pylist(), strict=True):
        schema = fastavro.parse_schema(earlier[value[4] - 1])
        row: Any = fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None)
        assert kept == (f'{{"more":{row["more"]}}}' if "more" in row else None)


KEYS = FakeSchemas(
    {
        1: avro("string"),
        2: avro(record(("id", "long"), ("part", ["null", "string"], None))),
        3: avro(["null", "long"]),
        4: ("JSON", "{}"),
        5: avro({"type": "enum", "name": "E", "symbols": ["A"]}),
    }
)


def test_keys_of_any_schema_are_json() -> None:
    sent = [
        encoded(KEYS, 1, 'a"ü'),
        encoded(KEYS, 2, {"id": 7, "part": None}),
        encoded(KEYS, 3, None),
        encoded(KEYS, 3, 5),
        encoded(KEYS, 5, "A"),
        framed(4, b"{}"),
        framed(1, b"\4a"),
        b"plain",
        None,
    ]
    found = decoded(RegisteredAvroKeys("key", KEYS), sent)
    keys = ['"a\\"ü"', '{"id":7,"part":null}', "null", "5", '"A"']
    assert found[:5] == [{"key": text} for text in keys]
    assert "type JSON" in found[5]
    assert "not an Avro body" in found[6]
    assert "not Confluent's wire format" in found[7]
    assert found[8] == TOMBSTONE


def unfollowed(decoder: RegisteredAvro, *values: bytes | None) -> set[int]:
    found = decoder.decode(pa.array(values, pa.binary()), pa.array([[]] * len(values), HEADERS))
    return set(found.unfollowed)


def test_a_schema_that_is_more_than_the_tables_is_named_once_one_of_its_records_is_there() -> None:
    """Any bytes can name any schema: those that are no record of it are to change no table."""
    following = RegisteredAvro(json.dumps(V1), make(), KEPT, following=Following())
    good = encoded(make(), 2, {"id": 1, "price": 2.5, "note": "x"})
    assert unfollowed(following, framed(1, b"\2\0"), None, framed(99, b"")) == set()
    assert unfollowed(following, framed(2, b"\2"), good[:-1], b"") == set()
    assert unfollowed(following, framed(2, b"\2"), good) == {2}
    assert unfollowed(following, framed(1, b"\2\0")) == set(), "one of these records"
    assert unfollowed(pickle.loads(pickle.dumps(following)), good) == {2}  # noqa: S301  (its own)
    assert unfollowed(RegisteredAvro(json.dumps(V1), make(), KEPT), good) == set()
    followed = RegisteredAvro(json.dumps(V2), make(), KEPT, following=Following())
    assert unfollowed(followed, good) == set()


def test_of_ids_of_one_form_one_is_named_whichever_of_them_comes() -> None:
    more = V2["fields"]
    schemas = FakeSchemas({n: avro({**V2, "doc": str(n), "fields": more}) for n in (2, 3, 4)})
    following = RegisteredAvro(json.dumps(V1), schemas, KEPT, following=Following())
    body = encoded(make(), 2, {"id": 1, "price": 2.5, "note": "x"})[5:]
    assert len(unfollowed(following, framed(2, body), framed(3, body))) == 1
    assert unfollowed(following, framed(4, body)) == {4}, "known by its form"
    # Also of a schema that the table cannot follow.
    schemas = FakeSchemas({n: avro({**record(("id", "string")), "doc": str(n)}) for n in (2, 3)})
    refusing = RegisteredAvro(json.dumps(V1), schemas, KEPT, following=Following())
    assert len(unfollowed(refusing, framed(2, b"\2x"), framed(3, b"\2x"))) == 1


def test_what_was_renamed_is_known_by_its_aliases_which_readers_do_not_use() -> None:
    def renamed(*aliases: str) -> dict[str, Any]:
        found = record(("key", "long"))
        return {**found, "fields": [{**found["fields"][0], "aliases": [*aliases]}]}

    schemas = FakeSchemas({1: avro(renamed()), 2: avro(renamed("id")), 3: avro(renamed("not a name"))})
    table = json.dumps(record(("id", "long")))
    following = RegisteredAvro(table, schemas, KEPT, following=Following())
    assert unfollowed(following, framed(1, b"\2"), framed(2, b"\2")) == {1, 2}
    assert unfollowed(following, framed(3, b"\2")) == {3}


def test_what_is_around_a_decoder_of_values_passes_on_which_schemas_it_names() -> None:
    values = RegisteredAvro(json.dumps(V1), make(), KEPT, following=Following())
    good = pa.array([encoded(make(), 2, {"id": 1, "price": 2.5, "note": "x"})], pa.binary())
    keys, headers = pa.nulls(1, pa.binary()), pa.array([[]], HEADERS)
    whole = OthersRecords(values)
    assert whole.decode(keys, good, headers).unfollowed == {2}
    assert ByReference(whole).decode(keys, good, headers).unfollowed == {2}


def test_a_schema_that_cannot_be_followed_rejects_its_records_and_is_named() -> None:
    following = RegisteredAvro(json.dumps(V1), make(), KEPT, following=Following())
    reason = (
        "schema id 4 cannot be followed: id: the table has long, the schema string. Fix: send the new type "
        "under another field name, or name a new table"
    )
    assert decoded(following, [framed(4, b"\2x")]) == [reason]
    assert unfollowed(following, framed(4, b"\2x")) == {4}
    # Without a conflict its further field would be kept elsewhere, and another case of a name is one.
    schemas = FakeSchemas({1: avro(record(("id", "long"), ("ID", "int")))})
    (said,) = decoded(
        RegisteredAvro(json.dumps(V1), schemas, KEPT, following=Following()), [framed(1, b"\2\2")]
    )
    assert said == (
        "schema id 1 cannot be followed: ID: the table has id, the schema ID, which differs in case only. "
        "Fix: spell the field as its column, or give it another name"
    )


def test_a_table_whose_columns_stay_names_only_schemas_that_cannot_be_read() -> None:
    staying = RegisteredAvro(json.dumps(V1), make(), KEPT, following=Following(adds_columns=False))
    more = encoded(make(), 2, {"id": 1, "price": 2.5, "note": None})
    assert decoded(staying, [more]) == [{"id": 1, "note": None, KEPT: '{"price":2.5}'}]
    assert unfollowed(staying, more) == set()
    assert unfollowed(staying, framed(4, b"\2x")) == {4}
    (said,) = decoded(staying, [framed(4, b"\2x")])
    assert said == (
        "schema id 4 cannot be read with the table's columns: id is long, and was string. Fix: set "
        'new_fields = "column" under [records], and restart the consumer, or name a new table'
    )


PRICE: dict[str, Any] = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
LETTERS: dict[str, Any] = {"type": "enum", "name": "E", "symbols": ["A"]}


@pytest.mark.parametrize(
    ("column", "sent", "path"),
    [
        (["null", "int"], ["null", "long"], "x"),
        (["null", "float"], ["null", "double"], "x"),
        (["null", "int", "string"], ["null", "int", "double"], "x"),
        ({"type": "array", "items": ["null", "int"]}, {"type": "array", "items": ["null", "long"]}, "x[]"),
        ({"type": "map", "values": ["null", "int"]}, {"type": "map", "values": ["null", "string"]}, "x[]"),
        (
            ["null", {**record(("y", ["null", "int"])), "name": "P"}],
            ["null", {**record(("y", ["null", "long"])), "name": "P"}],
            "x.y",
        ),
        (["null", LETTERS, "int"], ["null", {**LETTERS, "symbols": ["A", "B"]}, "int"], "x"),
    ],
)
def test_a_version_some_of_whose_values_no_column_that_stays_can_have_is_named(
    column: Any, sent: Any, path: str
) -> None:
    """As the one of which it has none: the stream may declare that it stops there."""
    how = Following(adds_columns=False)
    table = record(("id", "long"), ("x", column))
    schemas = FakeSchemas({1: avro(table), 2: avro(record(("id", "long"), ("x", sent)))})
    empty: dict[str, Any] = {"array": [], "map": {}}
    value = {"id": 1, "x": None if isinstance(sent, list) else empty[sent["type"]]}
    body = encoded(schemas, 2, value)
    staying = RegisteredAvro(json.dumps(table), schemas, KEPT, following=how)
    (row,) = decoded(staying, [body])
    assert isinstance(row, dict), "values that fit are rows, as long as the stream does not stop"
    assert unfollowed(staying, body) == {2}
    (found,) = how.merged(parsed(json.dumps(table)), written(schemas.get(2).text)).conflicts
    assert (found.path, found.fix) == (path, Fix.DECLARED)
    assert unfollowed(staying, encoded(schemas, 1, value)) == set()


def test_a_column_that_stays_has_null_further_symbols_and_decimals_by_their_values() -> None:
    table = record(("d", PRICE), ("id", "long"), ("e", LETTERS), ("es", {"type": "array", "items": "E"}))
    other = {**LETTERS, "symbols": ["A", "B"]}
    optional = record(
        ("d", {**PRICE, "precision": 64}),
        ("id", ["null", "long"]),
        ("e", ["null", other]),
        ("es", {"type": "array", "items": ["null", "E"]}),
    )
    plain = record(("d", PRICE), ("id", "int"), ("e", "string"), ("es", {"type": "array", "items": "string"}))
    schemas = FakeSchemas({1: avro(table), 2: avro(optional), 3: avro(plain)})
    staying = RegisteredAvro(json.dumps(table), schemas, KEPT, following=Following(adds_columns=False))
    price = Decimal("1.00")
    sent = [
        encoded(schemas, 1, {"d": price, "id": 1, "e": "A", "es": ["A"]}),
        encoded(schemas, 2, {"d": price, "id": None, "e": None, "es": [None, "B"]}),
        encoded(schemas, 2, {"d": price, "id": 2, "e": "B", "es": []}),
        encoded(schemas, 3, {"d": price, "id": 3, "e": "none of them", "es": ["C"]}),
    ]
    assert decoded(staying, sent) == [
        {"d": price, "id": 1, "e": "A", "es": ["A"], KEPT: None},
        {"d": price, "id": None, "e": None, "es": [None, "B"], KEPT: None},
        {"d": price, "id": 2, "e": "B", "es": [], KEPT: None},
        {"d": price, "id": 3, "e": "none of them", "es": ["C"], KEPT: None},
    ]
    assert unfollowed(staying, *sent) == set()


def test_a_decimal_of_too_many_digits_is_kept_whole_beside_the_columns_that_are_followed() -> None:
    """Also within a further record, and one that the table has, in a list."""
    long = {**PRICE, "precision": 60}
    line = {**record(("sku", "string")), "name": "Line"}
    more = {**record(("sku", "string"), ("d", long)), "name": "Line"}
    table = record(("id", "long"), ("lines", {"type": "array", "items": line}))
    other = record(
        ("id", "long"),
        ("lines", {"type": "array", "items": more}),
        ("d", long),
        ("r", {**record(("d", long), ("n", "int")), "name": "R"}),
    )
    schemas = FakeSchemas({2: avro(other)})
    how = Following(keeps_fields=True)
    followed = schema_text(how.merged(parsed(json.dumps(table)), written(json.dumps(other))).schema.record)
    decoder = RegisteredAvro(followed, schemas, KEPT, following=how)
    digits = "1" * 40
    number, less = Decimal(f"{digits}.25"), Decimal(f"-{digits}.25")
    body = encoded(
        schemas,
        2,
        {"id": 1, "lines": [{"sku": "a", "d": number}], "d": number, "r": {"d": less, "n": 7}},
    )
    (row,) = decoded(decoder, [body])
    assert isinstance(row, dict)
    assert json.loads(row.pop(KEPT)) == {
        "lines": [{"d": f"{digits}.25"}],
        "d": f"{digits}.25",
        "r": {"d": f"-{digits}.25"},
    }
    assert row == {"id": 1, "lines": [{"sku": "a"}], "r": {"n": 7}}
    assert unfollowed(decoder, body) == set()


def schemas_of(decoder: Decoder, values: Sequence[bytes | None], headers: Any = None) -> dict[int, Any]:
    lists = pa.array(headers or [[]] * len(values), HEADERS)
    return dict(decoder.decode(pa.array(values, pa.binary()), lists).schemas)


def test_the_first_and_the_last_record_of_each_schema_are_known() -> None:
    schemas = make()
    one = encoded(schemas, 1, {"id": 4, "note": "b"})
    two = encoded(schemas, 2, {"id": 1, "price": 0.5, "note": "a"})
    decoder = RegisteredAvro(json.dumps(V1), schemas, KEPT)
    assert schemas_of(decoder, [None, two, one, b"plain", two, one, None]) == {1: (2, 5), 2: (1, 4)}
    assert schemas_of(decoder, [one, one, one]) == {1: (0, 2)}
    assert schemas_of(decoder, []) == {}


def test_bytes_that_are_no_record_of_a_schema_count_for_none() -> None:
    """Those of unknown ids, of ids of other formats, of refused schemas, and what is behind a known id and no
    record of it."""
    schemas = make()
    one = encoded(schemas, 1, {"id": 4, "note": "b"})
    names = [b"\0" + number.to_bytes(4, "big") + b"\xff" * 12 for number in (1, 2, 6, 7, 8, 9, 4_000, 4_001)]
    decoder = RegisteredAvro(json.dumps(V1), schemas, KEPT)
    assert schemas_of(decoder, [*names, one, *names]) == {1: (8, 8)}


def test_a_version_that_is_not_followed_counts_once_a_record_of_it_was_there() -> None:
    schemas = make()
    decoder = RegisteredAvro(json.dumps(V1), schemas, KEPT, following=Following())
    garbage, real = b"\0\0\0\0\4\xff", encoded(schemas, 4, {"id": "x"})
    assert schemas_of(decoder, [garbage, garbage]) == {}
    assert schemas_of(decoder, [garbage, real, real]) == {4: (0, 2)}
    # As it is passed on.
    whole = ByReference(OthersRecords(decoder))
    keys, lists = pa.nulls(1, pa.binary()), pa.array([[]], HEADERS)
    assert whole.decode(keys, pa.array([real]), lists).schemas == {4: (0, 0)}
