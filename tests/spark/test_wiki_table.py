"""The wiki stream's table on real services: its partitions, what a batch costs, and how it is verified."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from local.services import minio
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.reading.toml import ConfigError
from spark_jobs.common.consumer import writer as writer_module
from spark_jobs.common.consumer.writer import StreamWriter, VerificationFailed
from spark_jobs.common.lake import tables
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from spark_jobs.common.lake.tables import IncompatibleSchema
from spark_jobs.common.lake.written.added_file import AddedFile
from spark_jobs.common.lake.written.read_offsets import OffsetReader
from spark_jobs.wiki_changes.transforms import MAX_SERVER_NAME, changes
from tests.support.lakehouse import Stream
from tests.support.services import Services
from tests.support.wiki import DECLARED, Wiki, events

_numbers = count()
SERVERS = 30
KINDS = ("Versions", "DeleteMarkers")
# Beside its files: what is read to plan and to commit, and what is written with a commit and a publishing.
CALLS_OF_A_BATCH, VERSIONS_OF_A_BATCH = 20, 6


@pytest.fixture
def wiki(spark: SparkSession, services: Services, tmp_path: Path) -> Iterator[Wiki]:
    services.minio, services.postgres  # noqa: B018
    made = Wiki(spark, services, f"wiki_{next(_numbers)}", str(tmp_path))
    yield made
    made.stop()


def added(wiki: Stream) -> list[AddedFile]:
    """The data files of the newest batch on ``main``."""
    table = IcebergTable(wiki.spark, wiki.spec.table)
    newest = next(s for s in table.snapshots(MAIN) if s.summary.get("sluice.kind") == "batch")
    return table.added_files(newest.id)


class Counted(StreamWriter):
    """Calls ``observe`` before and behind each batch."""

    def __init__(self, observe: Callable[[], None], *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._observe = observe

    def batch(self, records: DataFrame, batch_id: int) -> None:
        self._observe()
        super().batch(records, batch_id)
        self._observe()


@pytest.mark.parametrize("dates", [pytest.param(1, marks=pytest.mark.exhaustive), 2])
def test_a_batch_over_many_servers_is_a_file_for_each_and_within_its_budget(
    wiki: Wiki, services: Services, dates: int
) -> None:
    # Not keyed by their wiki: a server's events lie in all partitions of the topic, as after it was widened.
    bodies = [body for _, body in events(SERVERS * 2 * dates, SERVERS, dates)]
    wiki.put([(str(number), body) for number, body in enumerate(bodies)])
    observations: list[Counter[str]] = []

    def observe() -> None:
        pages = services.minio.get_paginator("list_object_versions")
        found = list(pages.paginate(Bucket="warehouse", Prefix="lake/"))
        calls = minio.requests(services.stack.context).items()
        count = Counter({api: n for api, n in calls if not api.startswith("ListObject")})
        count.update({kind: sum(len(page.get(kind, [])) for page in found) for kind in KINDS})
        observations.append(count)

    wiki.run(wiki.writer(kind=partial(Counted, observe)))
    before, after = observations
    files, versions, markers = len(added(wiki)), *(after[kind] - before[kind] for kind in KINDS)
    spent = {api: after[api] - before[api] for api in after if api not in KINDS}
    calls = sum(spent.values())
    print(f"{SERVERS} servers, {dates} dates: {files} files, {versions} versions, {calls} S3 calls {spent}")
    assert files == SERVERS * dates
    assert calls <= min(2 * files + CALLS_OF_A_BATCH, DECLARED.budget.s3_calls_per_batch)
    assert versions <= min(files + VERSIONS_OF_A_BATCH, DECLARED.budget.versions_per_batch)
    assert markers == 0
    wiki.assert_all_of_it(SERVERS * 2 * dates)


def test_what_is_no_event_goes_to_quarantine_and_the_batch_is_exact(wiki: Wiki) -> None:
    good = list(events(40, 7))
    bad = [("w1", b"{broken"), ("w2", b""), *events(3, 3, server_name=None), *events(2, 2, timestamp=0)]
    mixed = [body for pair in zip(good, bad * 6, strict=False) for body in pair]
    wiki.put(mixed)
    wiki.run(wiki.writer())
    wiki.assert_all_of_it(len(mixed))
    assert set(wiki.reasons()) == {
        "not JSON",
        "not JSON: it is empty",
        "no server_name",
        "timestamp is before 2001",
    }
    assert len(wiki.record_offsets()) == len(good)


def test_an_event_that_is_on_the_topic_twice_is_two_rows(wiki: Wiki) -> None:
    (once,) = events(1)
    wiki.put([once, once])
    wiki.run(wiki.writer())
    ids = wiki.spark.table(f"{CATALOG}.{wiki.spec.table}").groupBy("event_id").count().collect()
    assert [row["count"] for row in ids] == [2]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda rows: rows.unionAll(rows.where(F.col("_kafka_offset") == 3)), "duplicates"),
        (lambda rows: rows.where((F.col("_kafka_offset") != 3) | F.col("reason").isNotNull()), "gaps"),
    ],
)
def test_rows_that_come_twice_or_not_at_all_are_seen_in_the_files(
    wiki: Wiki, spoil: Callable[[DataFrame], DataFrame], words: str
) -> None:
    """Two servers share a partition of the topic, so that no file is whole by its bounds."""
    wiki.put([("same", body) for _, body in events(40, 2)])
    writer = wiki.writer(decode=lambda rows: spoil(changes(rows, wiki.struct)))
    with pytest.raises(VerificationFailed, match=words):
        wiki.await_end(wiki.consume(writer, writer.acquire()))
    assert wiki.record_offsets() == []


ODD = [
    "a/b",
    "..",
    ".",
    "a b",
    "a%2Fb",
    "ä.wikipedia.org",
    "=",
    "a?b#c",
    "a\u0000b",
    "a\\b",
    "x" * MAX_SERVER_NAME,
]


def test_odd_names_of_servers_are_partitions_like_others(wiki: Wiki) -> None:
    bodies = [body for name in ODD for body in events(2, server_name=name, wiki="odd")]
    wiki.put(bodies)
    wiki.run(wiki.writer())
    wiki.assert_all_of_it(len(bodies))
    table = wiki.spark.table(f"{CATALOG}.{wiki.spec.table}")
    each = {row["server_name"]: row["count"] for row in table.groupBy("server_name").count().collect()}
    assert each == dict.fromkeys(ODD, 2)
    assert table.where(F.col("server_name") == ODD[0]).count() == 2, "files are found by the value"
    assert len(added(wiki)) == len(ODD)


def test_a_name_too_long_for_a_folder_is_quarantined_and_stops_nothing(wiki: Wiki) -> None:
    names = ["y" * (MAX_SERVER_NAME + 1), "z" * 5000, "", "ok.wikipedia.org"]
    wiki.put([body for name in names for body in events(1, server_name=name, wiki="odd")])
    wiki.run(wiki.writer())
    wiki.assert_all_of_it(len(names))
    assert wiki.reasons() == {"server_name is too long": 2, "no server_name": 1}


def test_the_table_says_how_it_is_partitioned_and_shuffled(wiki: Wiki) -> None:
    table = IcebergTable(wiki.spark, wiki.spec.table)
    assert table.partitions() == ["change_timestamp_date", "server_name"]
    rows = wiki.spark.sql(f"SHOW TBLPROPERTIES {CATALOG}.{wiki.spec.table}").collect()
    said = {row["key"]: row["value"] for row in rows}
    assert said["write.distribution-mode"] == "hash"
    assert said["write.metadata.metrics.column.comment"] == "counts"
    assert "write.metadata.metrics.column.change_timestamp" not in said


def test_other_partitions_than_the_tables_are_refused(wiki: Wiki) -> None:
    other = replace(wiki.spec, partition_by=["server_name"])
    with pytest.raises(IncompatibleSchema, match="change_timestamp_date, server_name"):
        tables.ensure(wiki.spark, other, wiki.struct)
    none = replace(wiki.spec, partition_by=["nowhere"])
    with pytest.raises(ConfigError, match="'nowhere'"):
        tables.ensure(wiki.spark, none, wiki.struct)


def test_a_table_whose_files_settle_it_is_never_read_back(
    spark: SparkSession, services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file per topic partition, as of a batch that is not small."""
    monkeypatch.setattr(writer_module, "SMALL_BATCH", 0)
    services.minio, services.postgres  # noqa: B018
    stream = Stream(spark, services, f"plain_{next(_numbers)}", str(tmp_path))
    writer = stream.writer()
    asked: list[str] = []
    monkeypatch.setattr(OffsetReader, "_read", lambda _, uri, *__: asked.append(uri))
    stream.send(50)
    stream.run(writer)
    stream.stop()
    assert asked == []
    assert json.loads(stream.summaries()[0]["end-offsets"]) == {"0": 50, "1": 50}
