"""Very many schemas that are registered, and take long: bounded time, and records of the others are rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from sluice.config.reading.protoc import compiled
from sluice.core.decoding.avro.writers import Writer
from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.protobuf.decoder import TableMessage
from sluice.core.decoding.protobuf.schema import NotCompiled
from sluice.core.decoding.registered import avro as registered_avro
from sluice.core.decoding.registered import protobuf as registered_protobuf
from sluice.core.decoding.registered.avro import RegisteredAvro
from sluice.core.decoding.registered.protobuf import RegisteredProtobuf
from sluice.core.decoding.registered.unfollowed import Following
from sluice.core.record_batches.records import SCHEMA
from sluice.core.registry.preparing import MAX_SECONDS, PreparationBudget
from sluice.core.registry.schemas import PROTOBUF
from tests.support.clock import Clock
from tests.support.protobuf import proto3
from tests.support.registered import FakeSchemas, avro, framed

FLOOD = range(1_000, 2_000)
SECONDS = 10
# One for each of the seconds of one that is made ready.
MADE = int(MAX_SECONDS) // SECONDS
LIVE, NEXT = 1, 5_000
HEAD = 'syntax = "proto3"; package shop;'
BODY = "message Order { int64 id = 1; }"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    for module in (registered_avro, registered_protobuf):
        monkeypatch.setattr(module, "PreparationBudget", lambda: PreparationBudget(found))
    return found


def of_protobuf(clock: Clock) -> tuple[RegisteredProtobuf, list[str]]:
    """A decoder, and the texts that were compiled, of which those of the flood take long."""
    made: list[str] = []

    def slowly(files: Mapping[str, str], root: str) -> bytes:
        made.append(files[root])
        if "nasty" in files[root]:
            clock.now += SECONDS
            raise NotCompiled("its compilation takes more than 10 seconds of a processor")
        return compiled(files, root)

    texts = {one: f'syntax = "proto3"; message nasty{one} {{ }}' for one in FLOOD}
    texts |= {LIVE: f"{HEAD} {BODY}", NEXT: f"{HEAD} {BODY} message Further {{}}"}
    schemas = FakeSchemas({one: (PROTOBUF, text) for one, text in texts.items()})
    return RegisteredProtobuf(TableMessage(proto3(BODY)), schemas, slowly, following=Following()), made


def of_avro(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> tuple[RegisteredAvro, list[str]]:
    made: list[str] = []
    new = RegisteredAvro._new_writer

    def slowly(self: RegisteredAvro, text: str) -> Writer | str:
        made.append(text)
        if "nasty" in text:
            clock.now += SECONDS
        return new(self, text)

    monkeypatch.setattr(RegisteredAvro, "_new_writer", slowly)

    def tree(name: str) -> dict[str, Any]:
        return {"type": "record", "name": "Order", "fields": [{"name": name, "type": "long"}]}

    schemas = FakeSchemas({one: avro(tree(f"nasty{one}")) for one in FLOOD})
    schemas.schemas |= {LIVE: avro(tree("id")), NEXT: avro({**tree("id"), "name": "Next"})}
    return RegisteredAvro(json.dumps(tree("id")), schemas), made


def decode(decoder: Any, values: list[bytes]) -> list[Any]:
    headers = pa.array([[]] * len(values), SCHEMA.field("headers").type)
    found = decoder.decode(pa.array(values, pa.binary()), headers)
    rows = zip(found.reasons.to_pylist(), found.columns.to_pylist(), strict=True)
    return [row if reason is None else reason for reason, row in rows]


def reference(decoder: Any, value: bytes) -> Any:
    try:
        return dict(decoder.reference(value, []))
    except Malformed as error:
        return str(error)


@pytest.mark.parametrize("is_avro", [True, False], ids=["avro", "protobuf"])
def test_a_thousand_slow_schemas_take_the_time_that_there_is(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, is_avro: bool
) -> None:
    decoder, made = of_avro(clock, monkeypatch) if is_avro else of_protobuf(clock)
    body = b"\x04" if is_avro else b"\x00\x08\x02"
    live = framed(LIVE, body)
    flood = [framed(one, body) for one in FLOOD]
    began = clock.now
    values = [*flood, live, live]
    found = decode(decoder, values)
    assert found[-2:] == [{"id": 2}] * 2
    reasons = Counter("not made ready" if "was not made ready" in one else "other" for one in found[:-2])
    assert reasons == {"not made ready": len(FLOOD) - MADE, "other": MADE}
    assert clock.now - began <= MAX_SECONDS + SECONDS
    assert len(made) == MADE + 1
    named = [one for one in found[:-2] if "was not made ready" in one]
    assert named[0].startswith("schema id ")
    # Further pieces, and the sample, in which time has come for some of them meanwhile.
    for _ in range(5):
        clock.now += 1
        found = decode(decoder, values)
        assert found[-2:] == [{"id": 2}] * 2
        clock.now += 100
        assert [reference(decoder, one) for one in values] == found
    # As much as its share of the time, and none of them twice.
    assert len(made) == len({*made}) <= MADE + 1 + 5 * (101 // (4 * SECONDS) + 1)
    # A new one of the stream's is made ready, once the flood is over.
    clock.now += 1_000
    assert decode(decoder, [framed(NEXT, body), live]) == [{"id": 2}] * 2
