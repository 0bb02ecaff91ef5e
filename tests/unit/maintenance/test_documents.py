"""Documents beside a table that its properties name: checked, and removed once no state names them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.table import Table

from sluice.clients.lake.file_io import BotoFileIO
from sluice.clients.s3.objects import Bucket
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.findings import FindingName
from sluice.core.schema_versions.followed import PROPERTY, address
from sluice.core.schema_versions.offsets import PROPERTY as OFFSETS
from sluice.core.schema_versions.offsets import SchemaOffsets
from sluice.core.schema_versions.offsets import address as offsets_address
from sluice.core.tables.file_removal import MetadataRecord
from sluice.maintenance.reconciliation.files import document_findings
from sluice.maintenance.removal import FileRemoval
from spark_jobs.common.lake.followed import followed_schema
from tests.support import lake as lakes
from tests.support.memory_s3 import MemoryS3
from tests.support.pages import spec
from tests.support.raising import raising

TABLE = spec().table
LOCATION = "s3://w/lake/t"
NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)


class World:
    """A table in memory whose states are metadata files without a snapshot."""

    def __init__(self, folder: Path) -> None:
        self.memory = MemoryS3()
        self.client = self.memory.as_client()
        self.io = BotoFileIO({}, self.client)
        made = lakes.make(folder).table(lakes.TABLE).metadata
        self._metadata = made.model_copy(update={"location": LOCATION})
        self.records: list[MetadataRecord] = []
        self.systems: Any = SimpleNamespace(
            s3=self.client,
            lake=SimpleNamespace(
                location=lambda name: self.current if name == TABLE else None,
                table=lambda name: self.table,
            ),
            history=lambda name: SimpleNamespace(metadata=lambda: iter(self.records[::-1])),
            bucket=lambda name: Bucket(self.client, name),
            remove_objects=self._remove,
        )

    def _remove(self, bucket: str, keys: Iterable[str]) -> None:
        for key in list(keys):
            del self.memory.objects[bucket, key]

    def state(self, properties: dict[str, str], age: timedelta) -> None:
        """The table's next one."""
        metadata = self._metadata.model_copy(update={"properties": properties})
        self.current = f"{LOCATION}/metadata/{len(self.memory.objects)}.metadata.json"
        place = "w", self.current.removeprefix("s3://w/")
        self.memory.objects[place] = metadata.model_dump_json().encode()
        self.memory.modified[place] = NOW - age
        catalog: Any = None
        self.table = Table(tuple(TABLE.split(".")), metadata, self.current, self.io, catalog)

    def document(self, text: str, age: timedelta) -> str:
        digest = followed_schema.keep(self.client, LOCATION, text)
        self.memory.modified["w", self.key(digest)] = NOW - age
        return digest

    def key(self, digest: str) -> str:
        return address(LOCATION, digest).removeprefix("s3://w/")

    def has(self, digest: str) -> bool:
        return ("w", self.key(digest)) in self.memory.objects

    def record(self, days: int, location: str) -> None:
        """As of each day since then."""
        for number in range(days, 0, -1):
            self.records.append(MetadataRecord(NOW - number * DAY, {TABLE: location}, ""))

    def remove(self) -> Any:
        return FileRemoval(self.systems, spec()).remove(NOW)[TABLE]

    def check(self) -> list[str]:
        return [str(one) for one in document_findings(self.systems, TABLE)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_one_that_no_state_names_goes_once_it_is_old(world: World) -> None:
    """A young one may be of a commit that comes now; a recorded state's is that of a restored catalog."""
    old, recorded, before, now = (world.document(text, 30 * DAY) for text in ("0", "1", "2", "3"))
    young = world.document("4", timedelta(hours=1))
    # The base is of 10 days ago, less a day of slack.
    just = world.document("5", 11 * DAY - timedelta(minutes=1))
    world.state({PROPERTY: recorded}, 10 * DAY)
    world.record(10, world.current)
    world.state({PROPERTY: before}, 3 * DAY)
    world.record(2, world.current)
    world.state({PROPERTY: now}, DAY)
    assert world.remove() == 1
    found = {digest: world.has(digest) for digest in (old, recorded, before, now, young, just)}
    assert found == {old: False, recorded: True, before: True, now: True, young: True, just: True}


def test_offsets_of_schemas_go_as_well(world: World) -> None:
    named = "n" * 64
    for digest in (named, "o" * 64):
        place = "w", offsets_address(LOCATION, digest).removeprefix("s3://w/")
        world.memory.objects[place] = b"[]"
        world.memory.modified[place] = NOW - 30 * DAY
    world.state({OFFSETS: SchemaOffsets(document=named).text()}, 10 * DAY)
    world.record(10, world.current)
    assert world.remove() == 1
    assert [key for _, key in world.memory.objects if "/schema-offsets/" in key] == [
        offsets_address(LOCATION, named).removeprefix("s3://w/")
    ]


@pytest.mark.parametrize("is_current", [True, False])
def test_nothing_is_removed_while_one_is_missing(world: World, is_current: bool) -> None:
    gone, unused = world.document("0", 30 * DAY), world.document("1", 30 * DAY)
    world.state({PROPERTY: gone}, 10 * DAY)
    world.record(10, world.current)
    if not is_current:
        world.state({}, DAY)
    del world.memory.objects["w", world.key(gone)]
    with raising(Refused, f"schemas/{gone}.* is missing", "Fix: ") as caught:
        world.remove()
    assert caught.value.code is ErrorCode.LAKE_FILE_MISSING
    assert world.has(unused)


def test_one_that_the_table_names_is_found_missing_or_damaged(world: World) -> None:
    digest = world.document("{}", DAY)
    world.state({PROPERTY: digest}, DAY)
    assert world.check() == []
    world.memory.objects["w", world.key(digest)] = b"{ }"
    assert world.check() == [
        f"{FindingName.FILE_DAMAGED}: {address(LOCATION, digest)} has other content than the table names"
    ]
    del world.memory.objects["w", world.key(digest)]
    assert world.check() == [
        f"{FindingName.FILE_DAMAGED}: {LOCATION}/schemas/{digest}.* is missing, and the table names it"
    ]
    world.state({PROPERTY: "", OFFSETS: SchemaOffsets(document=digest).text()}, DAY)
    assert f"{LOCATION}/schema-offsets/{digest}.* is missing" in world.check()[0]
    world.state({}, DAY)
    assert world.check() == []
