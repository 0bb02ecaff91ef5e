"""Schemas by their fingerprints: of the stream's folder as it is now, and of what was kept."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluice.clients.registry.budget import MAX_UNKNOWN
from sluice.clients.registry.kept import FAILED_SECONDS, KeptSchemas
from sluice.clients.registry.objects import SchemaObjects
from sluice.config import streams
from sluice.config.folders import VARIABLE
from sluice.config.platform_sections.s3 import S3
from sluice.config.stream import StreamSpec
from sluice.core.decoding.registered.fingerprints import id_of
from sluice.core.registry.errors import NotLookedUp, UnknownSchema
from spark_jobs.common.kafka import fingerprints
from spark_jobs.common.kafka.avro import AvroSchema
from spark_jobs.common.kafka.fingerprints import FingerprintSchemas, SchemaFiles
from tests.support.declarations import OF_OTHERS_RECORDS as STREAM
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising

UNKNOWN = "written with an Avro schema that is unknown: "


def schema(*names: str, **more: Any) -> AvroSchema:
    fields = [{"name": name, "type": "int", **more} for name in names]
    return AvroSchema(json.dumps({"type": "record", "name": "O", "fields": fields}))


A, AB, ABC = schema("a"), schema("a", "b"), schema("a", "b", "c")
NUMBER = id_of(AB.fingerprint)


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StreamSpec:
    folder = tmp_path / "orders"
    (folder / "schemas").mkdir(parents=True)
    (folder / "schema.avsc").write_text(A.text)
    records = 'format = "avro"\nnew_fields = "column"'
    (folder / "stream.toml").write_text(STREAM.format(schema='schema = "schema.avsc"', records=records))
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return streams.load("orders")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> MemoryS3:
    found = MemoryS3()
    monkeypatch.setattr(fingerprints, "connect", lambda _: found.as_client())
    fingerprints._kept.cache_clear()
    return found


Made = Callable[[], FingerprintSchemas]


@pytest.fixture
def made(spec: StreamSpec, bucket: MemoryS3) -> Made:
    """As each process has them."""

    def schemas() -> FingerprintSchemas:
        fingerprints._kept.cache_clear()
        found = FingerprintSchemas(spec, spec.topic.name, A, S3("key", "secret"), "s3://w/ledger")
        return pickle.loads(pickle.dumps(found))  # noqa: S301

    return schemas


def test_a_file_is_found_that_came_after_the_start_and_kept_when_it_goes(
    made: Made, spec: StreamSpec, bucket: MemoryS3
) -> None:
    schemas = made()
    assert schemas.get(id_of(A.fingerprint)).text == A.text
    file = spec.folder / "schemas" / "2.avsc"
    file.write_text(AB.text)
    assert schemas.get(NUMBER).text == AB.text
    (place,) = bucket.objects
    assert place[1].startswith("ledger/_registries/")
    assert place[1].endswith(f"/schemas/{NUMBER}.json")
    file.unlink()
    assert made().get(NUMBER).text == AB.text


def test_schema_avsc_is_read_again_too(made: Made, spec: StreamSpec) -> None:
    schemas = made()
    schemas.get(id_of(A.fingerprint))
    spec.schema_file.write_text(AB.text)
    assert schemas.get(NUMBER).text == AB.text


def test_one_that_is_published_is_found_without_a_file(made: Made) -> None:
    made().publish(AB)
    made().publish(AB)
    assert made().get(NUMBER).text == AB.text
    with raising(UnknownSchema, UNKNOWN + ABC.fingerprint):
        made().get(id_of(ABC.fingerprint))


def test_the_first_text_of_a_fingerprint_counts(made: Made, spec: StreamSpec) -> None:
    """A fingerprint leaves out docs and aliases."""
    made().publish(AB)
    (spec.folder / "schemas" / "2.avsc").write_text(schema("a", "b", doc="other").text)
    assert schema("a", "b", doc="other").fingerprint == AB.fingerprint
    assert made().get(NUMBER).text == AB.text


def test_a_file_that_is_half_written_is_none_yet(
    made: Made, spec: StreamSpec, caplog: pytest.LogCaptureFixture
) -> None:
    schemas = made()
    schemas.get(id_of(A.fingerprint))
    (spec.folder / "schemas" / "1.avsc").write_text(AB.text[:-5])
    (spec.folder / "schemas" / "2.avsc").write_text('"x"')
    (spec.folder / "schemas" / "3.avsc").write_text(ABC.text)
    with caplog.at_level(logging.WARNING):
        assert schemas.get(id_of(ABC.fingerprint)).text == ABC.text
    assert ["1.avsc" in caplog.text, "2.avsc" in caplog.text, len(caplog.records)] == [True, True, 2]


def test_unknown_ones_are_asked_for_in_intervals_and_no_flood_is(spec: StreamSpec) -> None:
    seconds, source = 0.0, SchemaFiles(spec)
    bucket = MemoryS3()
    store = SchemaObjects(bucket.as_client(), "s3://w/ledger", "t")
    schemas = KeptSchemas(source, store, lambda: seconds, is_by_content=True)
    with raising(UnknownSchema, UNKNOWN + AB.fingerprint):
        schemas.get(NUMBER)
    (spec.folder / "schemas" / "2.avsc").write_text(AB.text)
    with raising(UnknownSchema, UNKNOWN + AB.fingerprint):
        schemas.get(NUMBER)
    seconds += FAILED_SECONDS
    assert schemas.get(NUMBER).text == AB.text
    for number in range(MAX_UNKNOWN):
        with raising(UnknownSchema, UNKNOWN):
            schemas.get(number)
    with raising(NotLookedUp, "not looked up"):
        schemas.get(MAX_UNKNOWN)


def test_a_flood_is_said_with_the_fingerprint(made: Made) -> None:
    schemas = made()
    for number in range(MAX_UNKNOWN):
        with raising(UnknownSchema, UNKNOWN):
            schemas.get(number)
    with raising(NotLookedUp, f"{UNKNOWN}{MAX_UNKNOWN:016x}, and was not looked up", "Fix: "):
        schemas.get(MAX_UNKNOWN)
