"""What fills the rows of a stream, by what it declares and by the schemas that are kept."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from sluice.clients.registry.kept import RegistryChanged
from sluice.clients.registry.objects import SchemaObjects
from sluice.config.reading.protoc import compiled
from sluice.config.sections.records.declaration import Records
from sluice.core.registry.schemas import AVRO, JSON, PROTOBUF, Bundle, Definition, document
from spark_jobs.common.kafka import fingerprints
from spark_jobs.common.kafka.avro import AvroSchema
from spark_jobs.common.kafka.fingerprints import FingerprintSchemas
from spark_jobs.common.maintenance.fill import fillers
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising


def schema(**fields: Any) -> str:
    named = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "T", "fields": named})


TABLE = schema(id="int", new=["null", "double"])
TEXT = '{"new":0.1}'
ROW = {"id": 1, "new": None}


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> MemoryS3:
    found = MemoryS3()
    monkeypatch.setattr(fillers, "connect", lambda s3: found.as_client())
    return found


PLATFORM: Any = SimpleNamespace(
    s3=None,
    lake=SimpleNamespace(ledger="s3://warehouse/ledger"),
    need_registry=lambda: SimpleNamespace(identity="registry"),
)


def keep(memory: MemoryS3, *schemas: tuple[str, str]) -> SchemaObjects:
    store = SchemaObjects(memory.as_client(), "s3://warehouse/ledger", "registry")
    for number, (kind, text) in enumerate(schemas, 1):
        store.put(number, document(Bundle(number, Definition(kind, text), {})))
    return store


def spec(folder: Path, records: Records | None, **more: Any) -> Any:
    (folder / "schema.avsc").write_text(TABLE)
    given = {"name": "t", "table": "raw.t", "schema": "schema.avsc", "schema_file": folder / "schema.avsc"}
    kinds = {"is_avro": True, "is_protobuf": False, "is_ddl": False}
    return SimpleNamespace(
        folder=folder,
        records=records,
        **{**given, **kinds, "follows_fingerprints": False, **more},
    )


def test_records_are_read_by_all_schemas_that_are_kept_and_that_the_table_can_read(
    tmp_path: Path, memory: MemoryS3
) -> None:
    """Those of other topics too; of a schema with other docs only once."""
    wide, narrow = schema(id="int", new="double"), schema(id="int", new="float")
    other = json.dumps({**json.loads(wide), "doc": "of no use"})
    unlike, no_avro = schema(id="string", new="float"), '{"type": "object"}'
    store = keep(memory, (AVRO, wide), (AVRO, other), (AVRO, unlike), (JSON, no_avro))
    own = spec(tmp_path, Records("avro", registry=True))
    assert len(fillers.kept_schemas(store, str)) == 2
    filler = fillers.filler_of(own, PLATFORM, "")
    assert filler is not None
    assert filler.fill(ROW, TEXT).values == {"new": 0.1}
    # A record may have had 32 bits.
    keep(memory, *[(AVRO, wide)] * 4, (AVRO, narrow))
    filler = fillers.filler_of(own, PLATFORM, "")
    assert filler is not None
    assert filler.fill(ROW, TEXT).left == TEXT


def test_a_kept_document_that_is_damaged_is_named(memory: MemoryS3) -> None:
    store = keep(memory, (AVRO, TABLE))
    (place,) = memory.objects
    memory.objects[place] = b'{"form": 1, "id": 7}'
    with raising(RegistryChanged, "schema id 1 is damaged", "nothing was changed", "Fix: restore"):
        fillers.kept_schemas(store, "schema id {}".format)


def test_without_a_registry_the_folder_has_all_schemas(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "0.avsc").write_text(schema(id="int", new="float"))
    filler = fillers.filler_of(spec(tmp_path, Records("avro")), PLATFORM, "")
    assert filler is not None
    # The declared schema has a double, the one beside it a float.
    assert filler.fill(ROW, TEXT).left == TEXT
    assert filler.fill(ROW, '{"new":0.5}').values == {"new": 0.5}


def test_schemas_that_were_followed_by_fingerprint_are_known_after_their_files_are_gone(
    tmp_path: Path, memory: MemoryS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprints, "connect", lambda s3: memory.as_client())
    topic = SimpleNamespace(name="orders")
    own = spec(tmp_path, Records("avro"), topic=topic, follows_fingerprints=True)
    filler = fillers.filler_of(own, PLATFORM, "")
    assert filler is not None
    assert filler.fill(ROW, TEXT).values == {"new": 0.1}
    FingerprintSchemas.of(own, PLATFORM).publish(AvroSchema(schema(id="int", new="float")))
    filler = fillers.filler_of(own, PLATFORM, "")
    assert filler is not None
    # A record may have had 32 bits, and what its text means then is another number.
    assert filler.fill(ROW, TEXT).left == TEXT


def test_json_is_read_by_the_columns(tmp_path: Path) -> None:
    own = spec(tmp_path, Records("json"), is_avro=False, ddl_columns={"id": "bigint", "new": "double"})
    filler = fillers.filler_of(own, PLATFORM, "")
    assert filler is not None
    assert filler.fill(ROW, TEXT).values == {"new": 0.1}


def message(*fields: str) -> str:
    numbered = " ".join(f"{field} = {number};" for number, field in enumerate(fields, 1))
    return f'syntax = "proto3"; package shop; message Other {{ int32 x = 1; }} message Order {{ {numbered} }}'


def of_protobuf(folder: Path, **records: Any) -> Any:
    (folder / "schema.proto").write_text(message("int32 id", "double new"))
    own = Records("protobuf", message="shop.Order", **records)
    file = folder / "schema.proto"
    return spec(folder, own, is_avro=False, is_protobuf=True, schema="schema.proto", schema_file=file)


def test_messages_are_read_by_all_schemas_that_are_kept_and_have_the_message(
    tmp_path: Path, memory: MemoryS3
) -> None:
    wide, narrow = message("int32 id", "double new"), message("int32 id", "float new")
    others = ['syntax = "proto3"; message Order { float new = 2; }', "no schema of an Order"]
    store = keep(
        memory, (PROTOBUF, wide), (PROTOBUF, wide), *[(PROTOBUF, one) for one in others], (AVRO, TABLE)
    )
    assert len(fillers.kept_messages(store, str, "shop.Order")) == 1
    own = of_protobuf(tmp_path, registry=True)
    filler = fillers.filler_of(own, PLATFORM, "")
    assert filler is not None
    assert filler.fill(ROW, TEXT).values == {"new": 0.1}
    # What a schema of the registry lacks is known by its number, and is no field of the record.
    assert filler.fill(ROW, '{"2":{"fixed64":0}}').values == {}
    # As Confluent's serializer of Python registers it.
    descriptor = base64.b64encode(_descriptor(narrow)).decode()
    keep(memory, (PROTOBUF, wide), *[(PROTOBUF, one) for one in (wide, *others, wide, descriptor)])
    filler = fillers.filler_of(own, PLATFORM, "")
    assert filler is not None
    assert filler.fill(ROW, TEXT).left == TEXT


def _descriptor(text: str) -> bytes:
    (found,) = FileDescriptorSet.FromString(compiled({"a.proto": text}, "a.proto")).file
    return found.SerializeToString()


def test_messages_without_a_registry_are_read_by_their_numbers(tmp_path: Path) -> None:
    filler = fillers.filler_of(of_protobuf(tmp_path), PLATFORM, "")
    assert filler is not None
    found = filler.fill(ROW, '{"2":{"fixed64":4602678819172646912},"3":{"varint":1}}')
    assert (found.values, found.left) == ({"new": 0.5}, '{"3":{"varint":1}}')


@pytest.mark.parametrize("records", [None, Records("avro", unknown_fields="")])
def test_of_other_streams_nothing_is_filled(tmp_path: Path, records: Records | None) -> None:
    assert fillers.filler_of(spec(tmp_path, records), PLATFORM, "") is None
