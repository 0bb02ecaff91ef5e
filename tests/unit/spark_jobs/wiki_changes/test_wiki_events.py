"""What Wikimedia's events are to the producer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from local.base import REPO
from spark_jobs.wiki_changes.events import OVERLAP_MS, read, rewind

EVENT: dict[str, Any] = {
    "$schema": "/mediawiki/recentchange/1.0.0",
    "meta": {"id": "63d9586d-899f", "domain": "ms.wiktionary.org", "stream": "mediawiki.recentchange"},
    "wiki": "mswiktionary",
    "title": "Kategori:Lema",
}


def changed(**values: Any) -> str:
    return json.dumps(EVENT | values)


def test_an_event_is_known_by_its_meta_id_and_keyed_by_its_wiki() -> None:
    event = read(changed(), "p")
    assert (event.event_id, event.key, event.malformed, event.is_canary) == (
        "63d9586d-899f",
        "mswiktionary",
        None,
        False,
    )


@pytest.mark.parametrize(
    ("said", "time"),
    [
        ("2026-11-27T19:00:00.250Z", 1795806000.25),
        ("2026-11-27T20:00:00+01:00", 1795806000.0),
        ("2026-11-27T19:00:00", 1795806000.0),
        ("at noon", None),
        (7, None),
        (None, None),
    ],
)
def test_an_event_says_when_it_happened(said: object, time: float | None) -> None:
    assert read(changed(meta={"id": "x", "dt": said}), "p").time == time
    assert read(changed(meta={"id": "x", "dt": said, "domain": "canary"}), "p").time == time


def test_every_recorded_event_is_good() -> None:
    lines = (REPO / "samples" / "wiki_changes" / "recentchange.jsonl").read_text().splitlines()
    events = [read(line, "p") for line in lines if line]
    assert len({event.event_id for event in events}) == len(events) >= 50
    assert all(event.malformed is None and event.key and not event.is_canary for event in events)
    assert all(event.time is not None for event in events)


def test_the_legacy_shape_and_json_over_several_lines_are_good() -> None:
    legacy = EVENT | {"meta": {"id": "x", "schema_uri": "mediawiki/recentchange/2", "domain": "d"}}
    del legacy["$schema"]
    assert read(json.dumps(legacy, indent=1), "p").event_id == "x"
    assert read(json.dumps(legacy), "p").malformed is None


@pytest.mark.parametrize(
    ("wiki", "key"),
    [("enwiki", "enwiki"), (None, "ms.wiktionary.org"), (7, "ms.wiktionary.org"), ("", "ms.wiktionary.org")],
)
def test_without_a_wiki_the_domain_is_the_key(wiki: object, key: str) -> None:
    assert read(changed(wiki=wiki), "p").key == key


def test_without_either_it_has_no_key_and_is_good() -> None:
    event = read('{"meta": {"id": "x"}, "wiki": "\\ud800"}', "p")
    assert (event.key, event.malformed) == (None, None)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ('{"meta": {"id"', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"meta": {"id": 1' + "0" * 5000 + "}}", "not JSON"),
        ("", "not JSON"),
        ("null", "no meta"),
        ('[{"meta": {"id": "x"}}]', "no meta"),
        ('{"meta": "x"}', "no meta"),
        ('{"meta": {}}', "is no id"),
        ('{"meta": {"id": ""}}', "is no id"),
        ('{"meta": {"id": 7}}', "is no id"),
        ('{"meta": {"id": "\\ud800"}}', "is no id"),
        ('{"meta": {"id": "%s"}}' % ("x" * 256), "is no id"),
    ],
)
def test_a_malformed_event_has_a_reason_an_id_and_no_key(data: str, reason: str) -> None:
    event = read(data, "p1")
    assert event.malformed is not None
    assert reason in event.malformed
    assert event.key is None
    assert event.event_id == read(data, "p1").event_id, "it is known when it comes again"
    assert event.event_id not in (read(data, "p2").event_id, read(data + " ", "p1").event_id)
    assert len(event.event_id) == 36


@pytest.mark.parametrize("meta", [{"id": "x", "domain": "canary"}, {"domain": "canary"}])
def test_a_canary_is_no_event(meta: dict[str, str]) -> None:
    assert read(changed(meta=meta), "p").is_canary


def place(topic: str, **at: int) -> dict[str, object]:
    return {"topic": topic, "partition": 0} | at


def asked(*places: dict[str, object]) -> Any:
    return json.loads(rewind(json.dumps(places)))


T = 1_670_732_822_001


def test_times_are_asked_for_from_a_little_earlier() -> None:
    assert asked(place("eqiad", timestamp=T), place("codfw", timestamp=T + 100)) == [
        place("eqiad", timestamp=T - OVERLAP_MS),
        place("codfw", timestamp=T + 100 - OVERLAP_MS),
    ]
    assert asked(place("eqiad", timestamp=5)) == [place("eqiad", timestamp=0)]


def test_a_topic_of_which_nothing_came_is_asked_for_from_the_same_time() -> None:
    assert asked(place("eqiad", timestamp=T), place("codfw", offset=-1)) == [
        place("eqiad", timestamp=T - OVERLAP_MS),
        place("codfw", timestamp=T - OVERLAP_MS),
    ]


def test_an_offset_is_exact() -> None:
    assert asked(place("eqiad", timestamp=T), place("codfw", offset=17))[1] == place("codfw", offset=17)
    text = '[{"topic": "codfw",  "partition": 0, "offset": -1}]'
    assert rewind(text) == text


@pytest.mark.parametrize(
    "text", ["17", "x", "", "[", "[1]", "{}", '{"timestamp": 9000}', '[{"timestamp": true}]']
)
def test_what_is_not_understood_stays(text: str) -> None:
    assert rewind(text) == text
