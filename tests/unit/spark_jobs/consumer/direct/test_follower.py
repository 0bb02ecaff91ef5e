"""What the driver does with schemas that tasks have found records of, before it commits anything."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

from sluice.core.decoding.avro.parsing import parsed
from sluice.core.registry.errors import UnknownSchema
from spark_jobs.common.consumer.direct.follower import Follower, SchemaNotFollowed
from tests.support.raising import raising
from tests.support.registered import FakeSchemas, avro

ORDER = {"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "long"}]}
PAYMENT = {"type": "record", "name": "bank.Payment", "fields": [{"name": "iban", "type": "string"}]}
# A commit would need one.
NO_WRITER = cast("Any", None)


def follower(schemas: FakeSchemas, *, stops: bool = False, unknown: str = "_unknown_fields") -> Follower:
    records = SimpleNamespace(
        stops=stops, added_columns={}, has_recursive_texts=False, unknown_column=unknown
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


def test_a_schema_of_another_topic_is_not_followed() -> None:
    schemas = FakeSchemas({7: avro(PAYMENT)})
    schemas.versions[7] = {"payments-value"}
    assert not follower(schemas).follow(NO_WRITER, frozenset({7}))
    with raising(SchemaNotFollowed, "schema id 7 is none of subject orders-value", "Fix:"):
        follower(schemas, stops=True).follow(NO_WRITER, frozenset({7}))
