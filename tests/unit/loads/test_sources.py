"""What each kind of source says for itself."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluice.clients.s3.objects import Current, ObjectVersion
from sluice.loads.known.contents import Known
from sluice.loads.sources import KINDS, csv_object, datasets, read, read_all
from sluice.loads.sources.base import Counted, Dataset
from sluice.loads.sources.csv_object import ObjectSource
from sluice.loads.sources.feed import FeedSource
from sluice.loads.sources.generator import GeneratorSource
from sluice.loads.sources.topic import TopicSource

OBJECT = {
    "source_id": "0" * 16, "bucket": "b", "key": "2026/a.csv", "version_id": "v", "etag": "e", "size": 5,
    "topic_id": "t",
}  # fmt: skip
PARAMETERS = {"rows": 10, "seed": 7, "start_time": "2026-11-21T11:00:00Z", "duration_hours": 1}
GENERATED = {"source_id": "1" * 16, "kind": "generated", "parameters": PARAMETERS}
FEED = {
    "source_id": "feed-1",
    "kind": "feed",
    "feed": "https://ann:secret@x.test/v2/changes",
    "topic_id": "t",
}
OTHERS = {
    "source_id": "topic-1", "kind": "topic", "topic": "t", "topic_id": "i", "end_offsets": {"0": 9},
    "stream_start": {"0": 2},
}  # fmt: skip
PLANNED = {
    "main": {"raw.t": {"snapshot_id": 5, "sequence_number": 3, "writer": "w1_a"}},
    "topic": "t", "partition_count": 1, "start_offsets": {"0": 4}, "run_id": "r", "at": "then",
}  # fmt: skip


@pytest.mark.parametrize(
    ("document", "kind", "name", "identity"),
    [
        (OBJECT, ObjectSource, "s3://b/2026/a.csv", {"object": "s3://b/2026/a.csv", "version_id": "v"}),
        (
            GENERATED,
            GeneratorSource,
            "10 generated rows of seed 7 from 2026-11-21T11:00:00Z, 1 h",
            {"generated": PARAMETERS},
        ),
        (FEED, FeedSource, f"feed {FEED['feed']}", {"feed": FEED["feed"]}),
        (
            OTHERS,
            TopicSource,
            "topic t",
            {
                "topic": "t",
                "topic_id": "i",
                "start_offsets": {"0": 4},
                "end_offsets": {"0": 9},
                "stream_start": {"0": 2},
            },
        ),
    ],
)
def test_a_source_is_read_from_its_document_which_stays_as_it_is(
    document: dict[str, Any], kind: type, name: str, identity: dict[str, Any]
) -> None:
    stored = json.dumps({**document, **PLANNED, "produced": False, "later": 1})
    source = read(json.loads(stored))
    assert (type(source), source.name, source.identity) == (kind, name, identity)
    assert json.dumps(source.document) == stored
    assert (source.source_id, source.run_id) == (document["source_id"], "r")
    assert (source.start_offsets, source.is_sent, source.is_withheld) == ({0: 4}, False, False)
    head = source.head("raw.t")
    assert head is not None
    assert (head.snapshot_id, source.head("raw.other")) == (5, None)


def test_the_number_of_rows_is_counted_told_or_not_known() -> None:
    bucket = SimpleNamespace(data_rows=lambda version, form: {"v": 12}[version.version_id])
    systems = cast("Any", SimpleNamespace(bucket=lambda name: bucket))
    found = [source.rows(systems) for source in read_all([OBJECT, GENERATED, FEED, OTHERS])]
    assert found == [12, 10, None, None]
    counted = [source.COUNTED for source in read_all([OBJECT, GENERATED, FEED, OTHERS])]
    assert counted == [Counted.ROWS, Counted.ROWS, Counted.EVENTS, Counted.OFFSETS]
    assert [kind.IS_LASTING for kind in KINDS] == [True, True, False, False]


def test_a_feed_has_the_partitions_that_were_added_since() -> None:
    """None of an object's rows can be there: each names its partition among those of the plan."""
    ends = {0: 9, 1: 2}
    assert read({**FEED, **PLANNED}).starts_until(ends) == {0: 4, 1: 0}
    assert read({**OBJECT, **PLANNED}).starts_until(ends) == {0: 4}


def test_datasets_are_named_without_passwords_and_their_number_does_not_grow() -> None:
    objects = [{**OBJECT, "key": f"2026/{number}.csv"} for number in range(3)]
    assert datasets(read_all([*objects, GENERATED, FEED, OTHERS])) == [
        Dataset("s3://b", "2026", 3, 15),
        Dataset("https://x.test", "/v2/changes"),
    ]
    assert datasets([read(OBJECT)]) == [Dataset("s3://b", "2026/a.csv", 1, 5)]
    assert datasets(read_all([OBJECT, {**OBJECT, "key": "b.csv"}])) == [Dataset("s3://b", "/", 2, 10)]


def test_a_kind_that_is_unknown_is_no_object() -> None:
    with pytest.raises(KeyError, match="queue"):
        read({"source_id": "s", "kind": "queue"})


def test_each_attempt_of_a_claim_reads_only_headers_that_were_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    versions = [ObjectVersion("b", f"{name}.csv", "v", "e", 9) for name in "ab"]
    found = [
        SimpleNamespace(known=Known.NEW, is_own=True, version=one, document=lambda one=one: {"key": one.key})
        for one in versions
    ]

    def claim(selected: Any, choose: Any) -> Any:
        return choose(found[:1]) + choose(found)[1:]

    monkeypatch.setattr(csv_object, "ObjectContents", lambda *_: SimpleNamespace(claim=claim))
    read: list[str] = []
    bucket: Any = SimpleNamespace(
        resolve=lambda *_: Current(versions), check_head=lambda one: read.append(one.key)
    )
    ledger: Any = SimpleNamespace(stream="s")
    new = csv_object.select_objects(ledger, bucket, {"verify_again": True}, cast("Any", object()))
    assert [document["key"] for document in new] == ["a.csv", "b.csv"]
    assert read == ["a.csv", "b.csv"]


def test_a_feeds_login_is_in_no_document() -> None:
    kafka = cast("Any", SimpleNamespace(describe=lambda topic: SimpleNamespace(id="topic-id")))
    made = FeedSource.from_now(kafka, "run", "topic", "https://u:word@feed.test/x?token=abcdefgh")
    assert made.address == "https://feed.test/x?token=***"
    assert "word" not in str(made.document)
