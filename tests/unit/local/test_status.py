"""The streams' lines of `make status`."""

from __future__ import annotations

import dataclasses
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from local.status.parts import SeenPart

from local.errors import Problem
from local.status import parts
from local.status.asking import Unseen, ask_all
from local.status.rows import ago, in_words, part_row, stream_row
from local.status.streams import Past, Seen, Supervised, past, rate
from sluice.clients.errors import ClientError, Unreachable
from sluice.clients.history import History
from sluice.clients.kafka import KafkaAdmin
from sluice.clients.table import BatchFact
from sluice.model import stream
from sluice.model.health import Diagnosis, Verdict
from sluice.model.process import ProcessState, ProcessStatus
from sluice.model.tending import Beat, State
from sluice.runtime.supervisor import SupervisorRuntime
from tests.support.memory_s3 import MemoryS3

SPEC = stream.load("nyc_taxi")
NOW = 10_000.0


def batch(at: float, records: int, began: float | None = None) -> BatchFact:
    return BatchFact(at=at, began=began, records=records, token=3)


WELL = Seen(
    diagnosis=Diagnosis(Verdict.HEALTHY, "everything is published", lag=0),
    batches=[batch(NOW - 30, 100), batch(NOW - 40, 100)],
    past=Past([False, True, False], {"kind": "restart", "who": "ada", "at": "1970-01-01T02:45:40+00:00"}),
    supervised=Supervised(paused=False, last_end=NOW - 100),
)


def cells(**changes: Any) -> dict[str, tuple[str, bool | None]]:
    row = stream_row(SPEC, "RUNNING", dataclasses.replace(WELL, **changes), NOW)
    return {
        name: (cell.text, cell.fine)
        for name, cell in vars(row).items()
        if name not in ("stream", "part", "sentence", "colour")
    }


def test_a_stream_that_is_well() -> None:
    assert cells() == {
        "state": ("RUNNING", None),
        "verdict": ("healthy", True),
        "lag": ("0", None),
        "rate": ("10", None),
        "last_batch": ("30 s ago", None),
        "restarts": ("2 own, 1 asked", None),
        "supervised": ("100 s ago", True),
        "last_event": ("restart by ada, 60 s ago", None),
    }
    row = stream_row(SPEC, "RUNNING", WELL, NOW)
    assert (row.fine, row.sentence, row.colour) == (True, "", "green")


@pytest.mark.parametrize(
    ("verdict", "fine", "colour", "says"),
    [
        (Verdict.CATCHING_UP, True, "green", False),
        (Verdict.HELD, True, "cyan", True),
        (Verdict.DEAD, False, "yellow", True),
        (Verdict.FLAPPING, False, "magenta", True),
        (Verdict.LOST, False, "red", True),
        (Verdict.UNOBSERVABLE, False, "red", True),
    ],
)
def test_a_verdict_has_its_set_s_colour_and_says_why_where_it_is_not_well(
    verdict: Verdict, fine: bool, colour: str, says: bool
) -> None:
    row = stream_row(SPEC, "EXITED", dataclasses.replace(WELL, diagnosis=Diagnosis(verdict, "why so")), NOW)
    assert (row.fine, row.colour, row.sentence) == (fine, colour, "why so" if says else "")


@pytest.mark.parametrize("part", ["diagnosis", "batches", "past", "supervised"])
def test_what_cannot_be_looked_at_is_said_and_is_not_fine(part: str) -> None:
    row = stream_row(SPEC, "RUNNING", dataclasses.replace(WELL, **{part: Unseen("Kafka sleeps")}), NOW)
    assert not row.fine
    assert row.sentence == "Kafka sleeps"
    assert [cell.text for cell in row.cells if cell.fine is False] == ["not seen"] * (
        1 if part == "supervised" else 2
    )


def test_the_same_reason_is_said_once() -> None:
    away = Unseen("MinIO sleeps")
    row = stream_row(SPEC, "RUNNING", Seen(away, away, away, WELL.supervised), NOW)
    assert row.sentence == "MinIO sleeps"


@pytest.mark.parametrize(
    ("supervised", "text", "fine"),
    [
        (Supervised(False, NOW - 360), "6 min ago", True),
        (Supervised(False, NOW - 361), "6 min ago", False),
        (Supervised(False, None), "never", False),
        (Supervised(True, NOW - 9000), "paused", None),
    ],
)
def test_supervision_is_missed_after_three_intervals(
    supervised: Supervised, text: str, fine: bool | None
) -> None:
    assert cells(supervised=supervised)["supervised"] == (text, fine)


def test_a_stream_that_nobody_wants_to_run_is_off_and_no_trouble() -> None:
    seen = dataclasses.replace(
        WELL, diagnosis=Diagnosis(Verdict.DEAD, "it is STOPPED"), supervised=Supervised(True, None)
    )
    row = stream_row(SPEC, "STOPPED", seen, NOW)
    assert (row.verdict.text, row.fine, row.sentence) == ("off", True, "")
    row = stream_row(SPEC, "STOPPED", dataclasses.replace(seen, supervised=Supervised(False, NOW)), NOW)
    assert (row.verdict.text, row.fine, row.sentence) == ("dead", False, "it is STOPPED")


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([], 0.0),
        ([batch(NOW - 301, 500)], 0.0),
        ([batch(NOW - 5, 500)], 0.0),
        ([batch(NOW - 5, 500, NOW - 10)], 100.0),
        # The oldest's records came before the span; one that is too old is left out.
        ([batch(NOW - 10, 300), batch(NOW - 20, 100), batch(NOW - 30, 999), batch(NOW - 400, 999)], 20.0),
    ],
)
def test_rows_per_second(batches: list[BatchFact], expected: float) -> None:
    assert rate(batches, NOW) == expected


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (None, "none"),
        ({"kind": "verdict", "verdict": "dead"}, "verdict dead, 10 s ago"),
        ({"kind": "restart", "who": "schedule", "verdict": "dead"}, "restart by schedule, 10 s ago"),
        ({"kind": "answer", "choice": "Restart it", "who": "ada"}, "answer Restart it by ada, 10 s ago"),
        ({"kind": "recovered", "seconds": 36.9, "how": "owner 2"}, "recovered in 37 s, 10 s ago"),
    ],
)
def test_the_last_event_in_words(event: dict[str, Any] | None, words: str) -> None:
    assert in_words(event and event | {"at": "1970-01-01T02:46:30+00:00"}, NOW) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s ago"),
        (119, "119 s ago"),
        (120, "2 min ago"),
        (7200, "2 h ago"),
        (172_800, "2 days ago"),
        (-3, "0 s ago"),
    ],
)
def test_ago(seconds: float, words: str) -> None:
    assert ago(NOW, NOW - seconds) == words
    assert ago(NOW, None) == "never"


PARTS = stream.load("wiki_changes")
PRODUCER = PARTS.part("producer")
WELL_PART = SeenPart(
    diagnosis=Diagnosis(Verdict.HEALTHY, "streaming", evidence={"beat": {"at": NOW - 3}}),
    past=WELL.past,
    supervised=WELL.supervised,
)


def test_a_part_that_is_well() -> None:
    row = part_row(PARTS, PRODUCER, "RUNNING", WELL_PART, NOW)
    assert row.name == "wiki_changes producer"
    assert [cell.text for cell in row.cells] == [
        *("RUNNING", "healthy", "–", "–", "beat 3 s ago", "2 own, 1 asked", "100 s ago"),
        "restart by ada, 60 s ago",
    ]
    assert (row.fine, row.sentence, row.colour) == (True, "", "green")
    assert row.to_json()["part"] == "producer"
    assert stream_row(PARTS, "RUNNING", WELL, NOW).to_json()["part"] == "consumer"
    assert stream_row(PARTS, "RUNNING", WELL, NOW).name == "wiki_changes"


@pytest.mark.parametrize(
    ("verdict", "state", "paused", "text", "fine", "says"),
    [
        (Verdict.CUT_OFF, "RUNNING", False, "cut off", False, True),
        (Verdict.DEAD, "EXITED", False, "dead", False, True),
        (Verdict.SUPERSEDED, "EXITED", False, "superseded", True, True),
        (Verdict.HELD, "STOPPED", False, "held", True, True),
        (Verdict.DEAD, "STOPPED", True, "off", True, False),
        (Verdict.UNOBSERVABLE, "RUNNING", False, "unobservable", False, True),
    ],
)
def test_a_part_that_is_not(
    verdict: Verdict, state: str, paused: bool, text: str, fine: bool, says: bool
) -> None:
    found = dataclasses.replace(
        WELL_PART, diagnosis=Diagnosis(verdict, "why so"), supervised=Supervised(paused, NOW)
    )
    row = part_row(PARTS, PRODUCER, state, found, NOW)
    assert (row.verdict.text, row.fine, row.sentence) == (text, fine, "why so" if says else "")
    assert row.last_batch.text == "no beat"
    assert (row.colour in ("green", "cyan", "dim")) == fine


def test_a_part_that_cannot_be_looked_at() -> None:
    away = Unseen("Kafka sleeps")
    row = part_row(PARTS, PRODUCER, "RUNNING", SeenPart(away, away, away), NOW)
    assert (row.fine, row.sentence) == (False, "Kafka sleeps")
    assert [cell.text for cell in row.cells].count("not seen") == 5


class Kafka(KafkaAdmin):
    """Says one beat after the other, and the last one for good; None never came, an error is raised."""

    def __init__(self, *said: Beat | ClientError | None) -> None:
        self.said = list(said)

    def beat(self, stream: str, part: str, topic: str) -> Beat | None:
        assert (stream, part, topic) == ("wiki_changes", "producer", "wiki-changes")
        found = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        if isinstance(found, ClientError):
            raise found
        return found


class Runtime(SupervisorRuntime):
    """supervisord, which knows one program."""

    def __init__(self, process: ProcessStatus) -> None:
        self.process = process

    def status(self, program: str) -> ProcessStatus:
        assert program == "stream-wiki_changes-producer"
        return self.process


def history() -> History:
    """Of nothing yet."""
    return History(MemoryS3().as_client(), "s3://warehouse/ledger", "wiki_changes")


def looked(kafka: Kafka, process: ProcessStatus) -> Diagnosis:
    return parts.look_at(PARTS, PRODUCER, Runtime(process), kafka, history(), sleep=lambda _: None)


def process(state: ProcessState, pid: int | None = 7) -> ProcessStatus:
    return ProcessStatus(PRODUCER.program, state, pid=pid, since=time.time() - 600)


def fresh(pid: int = 7, ago: float = 1.0, state: State = State.STREAMING) -> Beat:
    return Beat(at=time.time() - ago, pid=pid, state=state, since=time.time() - 500)


def test_a_part_is_looked_at_as_supervision_does() -> None:
    running, ended = process(ProcessState.RUNNING), process(ProcessState.EXITED, None)
    assert looked(Kafka(fresh()), running).verdict is Verdict.HEALTHY
    assert looked(Kafka(fresh(ago=90)), running).verdict is Verdict.STALLED
    assert looked(Kafka(fresh(ago=90), fresh()), running).verdict is Verdict.HEALTHY
    assert looked(Kafka(fresh(ago=90)), ended).verdict is Verdict.DEAD
    other = Kafka(fresh(pid=9, ago=9), fresh(pid=9, ago=1))
    assert looked(other, ended).verdict is Verdict.SUPERSEDED
    away = looked(Kafka(Unreachable("Kafka sleeps")), running)
    assert away.verdict is Verdict.UNOBSERVABLE
    assert "Kafka sleeps" in away.sentence


def test_the_newest_event_of_any_kind() -> None:
    now, kept = datetime.now(UTC), history()
    for hours, kind, event in (
        *(
            (25, "restart", {"asked": True}),
            (9, "restart", {"asked": False}),
            (8, "restart", {"asked": True}),
        ),
        *((7, "hold", {"who": "ada"}), (20, "verdict", {"verdict": "dead"})),
    ):
        kept.record(kind, event, now - timedelta(hours=hours))
    found = past(kept, now)
    assert found.newest is not None
    assert (found.newest["kind"], found.newest["who"]) == ("hold", "ada")
    assert found.restarts == [False, True]


def test_a_question_without_an_answer_does_not_hang() -> None:
    never = threading.Event()

    def refused() -> None:
        raise Problem("nobody knows")

    began = time.monotonic()
    found = ask_all({"a": lambda: 1, "b": never.wait, "c": refused}, 0.3)
    assert time.monotonic() - began < 2
    assert found == {"a": 1, "b": "no answer within 0 s", "c": "nobody knows"}
    assert isinstance(found["b"], Unseen)
    assert isinstance(found["c"], Unseen)
    never.set()
