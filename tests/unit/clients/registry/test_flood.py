"""A flood of records with made-up schema ids: a bounded number of requests, and no record of a schema that
exists is lost among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from sluice.clients.registry import schemas
from sluice.clients.registry.budget import MAX_UNKNOWN
from sluice.clients.registry.schemas import RegistrySchemas
from sluice.config.platform_sections.registry import Registry
from sluice.config.platform_sections.s3 import S3
from sluice.core.decoding.decoder import Decoder
from sluice.core.decoding.others.plain import TextDecoder
from sluice.core.decoding.registered.avro import RegisteredAvro
from sluice.core.decoding.registered.json import RegisteredJson
from sluice.core.record_batches.records import SCHEMA
from sluice.core.registry.errors import RegistryRefused, RegistryUnreachable
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising
from tests.support.registered import framed
from tests.support.registry_server import Answer, RegistryServer, error, serving

pytestmark = pytest.mark.usefixtures("socket_enabled")
TREE = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}'
MADE_UP = range(1_000, 2_000)
# Several records name the new schema, and one each made-up id. By its number it would be the last.
NEW = 5_000


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RegistryServer]:
    s3 = MemoryS3()
    monkeypatch.setattr(schemas, "connect", lambda config: s3.as_client())
    with serving() as made:
        made.answers |= {f"/schemas/ids/{one}": error(40403) for one in MADE_UP}
        made.answers[f"/schemas/ids/{NEW}"] = Answer({"schema": TREE})
        yield made
    schemas._kept.cache_clear()


def declared(server: RegistryServer) -> RegistrySchemas:
    return RegistrySchemas(Registry(server.url), S3("key", "secret"), "s3://warehouse/ledger")


def decoders(found: RegistrySchemas) -> list[Decoder]:
    return [RegisteredAvro(TREE, found), RegisteredJson(TextDecoder("value"), found)]


def decode(decoder: Decoder, values: list[bytes]) -> list[Any]:
    headers = pa.array([[]] * len(values), SCHEMA.field("headers").type)
    found = decoder.decode(pa.array(values, pa.binary()), headers)
    rows = zip(found.reasons.to_pylist(), found.columns.to_pylist(), strict=True)
    return [row if reason is None else reason for reason, row in rows]


@pytest.mark.parametrize("kind", [0, 1], ids=["avro", "json"])
def test_a_thousand_made_up_ids_cost_a_bounded_number_of_requests(server: RegistryServer, kind: int) -> None:
    if kind:
        server.answers[f"/schemas/ids/{NEW}"] = Answer({"schema": "{}", "schemaType": "JSON"})
    good = framed(NEW, b"x" if kind else b"\2")
    values = [framed(one, b"\2") for one in MADE_UP] + [good, good]
    decoder = decoders(declared(server))[kind]
    found = decode(decoder, values)
    assert found[-2:] == [{"value": "x"}] * 2 if kind else [{"id": 1}] * 2
    said = Counter(
        "not looked up" if "was not looked up" in text else text.split(" is ")[1] for text in found[:-2]
    )
    assert said["not looked up"] == len(MADE_UP) - MAX_UNKNOWN
    assert sum(said.values()) == len(MADE_UP)
    assert len(server.requests) == MAX_UNKNOWN + 1
    # Another piece of them, and a batch that is tried again: no request more.
    assert decode(decoder, values)[-2:] == found[-2:]
    assert len(server.requests) == MAX_UNKNOWN + 1


def test_an_outage_amidst_them_rejects_no_record(server: RegistryServer) -> None:
    server.answers[f"/schemas/ids/{MADE_UP[7]}"] = Answer({}, 503)
    with raising(RegistryUnreachable, "503"):
        decode(decoders(declared(server))[0], [framed(one, b"\2") for one in MADE_UP])


def test_one_forbidden_id_rejects_its_records_and_a_lost_right_none(server: RegistryServer) -> None:
    forbidden = MADE_UP[0]
    no = Answer({"error_code": 40301, "message": "denied"}, 403)
    server.answers[f"/schemas/ids/{forbidden}"] = no
    values = [framed(forbidden, b"\2"), framed(NEW, b"\2")]
    decoder = decoders(declared(server))[0]
    with raising(RegistryRefused, "403", "a missing right"):
        decode(decoder, values[:1])
    rejected, row = decode(decoder, values)
    assert row == {"id": 1}
    assert rejected.startswith(f"schema id {forbidden} is one that the login may not read")
    assert "denied" in rejected
    server.answers |= {f"/schemas/ids/{NEW}": no, f"/schemas/ids/{MADE_UP[1]}": no}
    with raising(RegistryRefused, "403", str(NEW)):
        decode(decoder, [framed(MADE_UP[1], b"\2")])
