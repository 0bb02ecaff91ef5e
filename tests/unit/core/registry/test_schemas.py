"""Registered schemas: as the API has them, as they are kept, and their bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.core.registry.errors import RefusedSchema
from sluice.core.registry.json_text import MAX_TEXT_BYTES
from sluice.core.registry.schemas import (
    AVRO,
    JSON,
    MAX_REFERENCES,
    MAX_TOTAL_BYTES,
    PROTOBUF,
    Bundle,
    Definition,
    Reference,
    RegisteredSchema,
    bundle_of,
    definition,
    document,
    encrypts_fields,
    registered,
)
from sluice.core.registry.subjects import Naming, Part, record_name, subject
from tests.support.raising import raising
from tests.support.registry_server import AVRO_TEXT

MONEY = Definition(AVRO, '{"type": "record", "name": "a.Money", "fields": []}')
ORDER = Definition(
    AVRO,
    '{"type": "record", "name": "Order", "namespace": "a", "fields": [{"name": "p", "type": "Money"}]}',
    (Reference("a.Money", "money", 3),),
)
BUNDLE = Bundle(7, ORDER, {("money", 3): MONEY})


def test_what_the_api_says_of_a_schema() -> None:
    references = [{"name": "a.Money", "subject": "money", "version": 3}]
    assert definition({"schema": ORDER.text, "references": references, "guid": "x"}, "x") == ORDER
    assert definition({"schema": "{}", "schemaType": "JSON", "references": None}, "x") == Definition(
        JSON, "{}"
    )


@pytest.mark.parametrize(
    "answer",
    [
        *([], None, "x", {}, {"schema": 7}, {"schema": "{}", "references": "x"}),
        *({"schema": "", "references": [one]} for one in (7, {"name": "a", "subject": "b"})),
        {"schema": "", "references": [{"name": "a", "subject": "b", "version": True}]},
    ],
)
def test_what_is_no_schema_of_the_api(answer: Any) -> None:
    with raising(ValueError):
        definition(answer, "x")


def test_a_type_that_is_not_read_is_refused() -> None:
    with raising(RefusedSchema, "schema id 7", "XML"):
        definition({"schema": "<a/>", "schemaType": "XML"}, "schema id 7")


@pytest.mark.parametrize(("subject", "version"), [("s", -1), ("s", 0), ("", 1), (".", 1), ("..", 1)])
def test_a_reference_is_to_one_version_of_a_subject(subject: str, version: int) -> None:
    references = [{"name": "a", "subject": subject, "version": version}]
    with raising(RefusedSchema, "schema id 7", f"version {version} of subject {subject!r}"):
        definition({"schema": "", "references": references}, "schema id 7")


def test_a_kept_document_gives_the_same_schema_and_its_bytes_do_not_depend_on_who_wrote_it() -> None:
    kept = document(BUNDLE)
    assert bundle_of(json.loads(json.dumps(kept)), 7) == BUNDLE
    two = {("money", 3): MONEY, ("b", 1): MONEY}
    one = document(Bundle(7, ORDER, two))
    assert json.dumps(one) == json.dumps(document(Bundle(7, ORDER, dict(reversed(two.items())))))


@pytest.mark.parametrize(
    "change",
    [{"form": 2}, {"id": 8}, {"schema": None}, {"referenced": []}, {"referenced": None}],
    ids=str,
)
def test_a_damaged_document_is_none(change: dict[str, Any]) -> None:
    with raising(ValueError):
        bundle_of(document(BUNDLE) | change, 7)


def test_a_decoder_gets_one_text() -> None:
    found = registered(BUNDLE)
    assert (found.id, found.type) == (7, AVRO)
    assert json.loads(found.text)["fields"][0]["type"]["name"] == "a.Money"
    assert record_name(found) == "a.Order"


def test_of_protobuf_the_text_stays() -> None:
    own = Definition(PROTOBUF, 'import "money.proto"; message Order {}', (Reference("money.proto", "m", 1),))
    assert registered(Bundle(1, own, {("m", 1): Definition(PROTOBUF, "message M {}")})).text == own.text


@pytest.mark.parametrize(
    "text",
    ['{"$ref": "a"}', '{"$ref": "#/nowhere"}', '{"$defs": {"x": {"$id": "y"}}, "$ref": "y"}', "no JSON"],
)
def test_a_json_schema_is_not_evaluated(text: str) -> None:
    own = Definition(JSON, text, (Reference("a", "s", 1),))
    assert registered(Bundle(1, own, {("s", 1): Definition(JSON, "{}")})).text == text


def test_rules_that_encrypt() -> None:
    fields = {"domainRules": [{"name": "r", "type": "ENCRYPT"}], "migrationRules": [{"type": "JSONATA"}]}
    assert encrypts_fields({"schema": AVRO_TEXT, "ruleSet": fields})
    assert definition({"schema": AVRO_TEXT, "ruleSet": fields}, "x").text == AVRO_TEXT
    others: tuple[Any, ...] = (None, [], {}, {"domainRules": None}, {"domainRules": [{"type": "CEL"}, 3]})
    for rules in others:
        assert not encrypts_fields({"schema": AVRO_TEXT, "ruleSet": rules})
    whole = {"encodingRules": [{"type": "ENCRYPT_PAYLOAD"}]}
    with raising(RefusedSchema, "schema id 7", "encrypts whole records"):
        definition({"schema": AVRO_TEXT, "ruleSet": whole}, "schema id 7")


def test_a_schema_has_bounds_with_all_that_it_refers_to() -> None:
    large = Definition(PROTOBUF, "x" * MAX_TEXT_BYTES)
    number = MAX_TOTAL_BYTES // MAX_TEXT_BYTES
    registered(Bundle(7, large, {("s", n): large for n in range(1, number)}))
    with raising(RefusedSchema, "schema id 7", MAX_TOTAL_BYTES):
        registered(Bundle(7, large, {("s", n): large for n in range(number)}))
    with raising(RefusedSchema, "schema id 7", MAX_TEXT_BYTES + 1):
        registered(Bundle(7, Definition(PROTOBUF, "x" * (MAX_TEXT_BYTES + 1)), {}))
    small = Definition(PROTOBUF, "x")
    registered(Bundle(7, small, {("s", n): small for n in range(MAX_REFERENCES)}))
    with raising(RefusedSchema, "schema id 7", MAX_REFERENCES + 1, MAX_REFERENCES):
        registered(Bundle(7, small, {("s", n): small for n in range(MAX_REFERENCES + 1)}))


@pytest.mark.parametrize(
    ("naming", "part", "expected"),
    [
        (Naming.TOPIC, Part.VALUE, "shop.orders-value"),
        (Naming.TOPIC, Part.KEY, "shop.orders-key"),
        (Naming.RECORD, Part.VALUE, "a.Order"),
        (Naming.TOPIC_RECORD, Part.KEY, "shop.orders-a.Order"),
    ],
)
def test_subjects_by_each_strategy(naming: Naming, part: Part, expected: str) -> None:
    assert subject(naming, "shop.orders", part, "a.Order") == expected


def test_a_strategy_by_record_needs_a_name() -> None:
    assert subject(Naming.TOPIC, "t") == "t-value"
    with raising(RefusedSchema, "topic t", "record"):
        subject(Naming.RECORD, "t")


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (AVRO, '{"type": "record", "name": "a.b.R", "namespace": "c", "fields": []}', "a.b.R"),
        (AVRO, '["null", "int"]', ""),
        (JSON, '{"title": "Order"}', "Order"),
        (JSON, "{}", ""),
        (PROTOBUF, "message M {}", ""),
    ],
)
def test_record_names(kind: str, text: str, expected: str) -> None:
    assert record_name(RegisteredSchema(1, kind, text)) == expected
