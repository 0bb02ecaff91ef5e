"""What the driver does with schemas that tasks have found records of, before it commits anything."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

from sluice.core.decoding.avro.following.conflicts import Fix
from sluice.core.decoding.avro.parsing import parsed
from sluice.core.registry.errors import UnknownSchema
from spark_jobs.common.consumer.direct.follower import Follower, SchemaNotFollowed
from tests.support.raising import raising
from tests.support.registered import FakeSchemas, avro

ORDER: dict[str, Any] = {"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "long"}]}
PAYMENT = {"type": "record", "name": "bank.Payment", "fields": [{"name": "iban", "type": "string"}]}
# A commit would need one.
NO_WRITER = cast("Any", None)


def follower(schemas: FakeSchemas, *, stops: bool = False, unknown: str = "_unknown_fields") -> Follower:
    records = SimpleNamespace(
        stops=stops, added_columns={}, has_recursive_texts=False, unknown_column=unknown, subjects=[]
    )
    spec = SimpleNamespace(
        records=records,
        table="raw.orders",
        topic=SimpleNamespace(name="orders"),
        uses_registry=True,
        follows=True,
        follows_fingerprints=False,
        is_protobuf=False,
    )
    found = Follower(cast("Any", spec), schemas)
    found._schema = parsed(json.dumps(ORDER))
    return found


def test_an_id_that_the_driver_was_told_to_be_unknown_is_left_for_the_next_batch() -> None:
    schemas = FakeSchemas({7: UnknownSchema("schema id 7 is unknown")})
    found = follower(schemas)
    for _ in range(2):
        assert not found.follow(NO_WRITER, frozenset({7}))
    assert schemas.asked == [7, 7], "it is not refused"
    # Its rows would lack what no column has yet.
    with raising(UnknownSchema, "schema id 7"):
        follower(schemas, unknown="").follow(NO_WRITER, frozenset({7}))


class Refusing:
    """A writer whose table has no columns but those that it has."""

    def __init__(self, why: str) -> None:
        self.why, self.asked = why, list[list[str]]()
        self.table = SimpleNamespace(refusal=self._refusal)

    def _refusal(self, columns: Any) -> str:
        self.asked.append(columns.names)
        return self.why


MORE = {**ORDER, "fields": [*ORDER["fields"], {"name": "shard", "type": "string"}]}
WHY = "'Cannot create partition from name that exists in schema: shard'"


def test_what_iceberg_refuses_is_decided_as_what_the_table_cannot_follow() -> None:
    schemas, refusing = FakeSchemas({7: avro(MORE)}), Refusing(WHY)
    schemas.versions[7] = {"orders-value"}
    found = follower(schemas)
    assert found.follow(cast("Any", refusing), frozenset({7})), "its records are decoded again, to be refused"
    assert found.impossible == {7: f"Iceberg refuses its columns: {WHY}. Fix: {Fix.NAME}"}
    assert not found.follow(cast("Any", refusing), frozenset({7}))
    assert refusing.asked == [["id", "shard"]], "once"
    with raising(SchemaNotFollowed, "schema id 7", WHY, "Fix:"):
        follower(schemas, stops=True).follow(cast("Any", refusing), frozenset({7}))


def test_a_schema_of_another_topic_is_not_followed() -> None:
    schemas = FakeSchemas({7: avro(PAYMENT)})
    schemas.versions[7] = {"payments-value"}
    assert not follower(schemas).follow(NO_WRITER, frozenset({7}))
    with raising(SchemaNotFollowed, "schema id 7 is none of subject orders-value", "Fix:"):
        follower(schemas, stops=True).follow(NO_WRITER, frozenset({7}))


def test_a_stream_that_stops_says_what_to_do_about_the_conflict_first() -> None:
    text = {**ORDER, "fields": [{"name": "id", "type": "string"}]}
    fix = "Fix: send the new type under another field name, or name a new table; or set [records] on_incompat"
    with raising(SchemaNotFollowed, "id: the table has long, the schema string; nothing of the batch", fix):
        follower(FakeSchemas({7: avro(text)}), stops=True).follow(NO_WRITER, frozenset({7}))
