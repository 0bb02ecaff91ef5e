"""The Wikipedia stream through Airflow: from the replayed feed to the page, with its processes killed."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import pytest
from playwright.sync_api import expect
from pyiceberg.table import DataScan

from local.replay import frames
from local.replay.events import Feed
from local.services import airflow as service
from local.services import replay
from local.stack.stack import Stack, wait_until
from sluice.clients.lake.results.table import ResultsReader
from sluice.core.offsets.ranges import OffsetRanges
from sluice.loads.sending import produced
from spark_jobs.common.feed.resume import load_position
from tests.integration import feeds, streams
from tests.support import airflow_calls, browser, topic_offsets
from tests.support.processes import component_processes, signal_all
from tests.support.scenario import step
from tests.support.stream import PUBLISH_SECONDS, StreamUnderTest

SPEC = streams.load("wiki_changes")
EDITORS = SPEC.queries["editors"]
LOAD, STREAM, COMPACT = "wiki_changes_load", "wiki_changes_stream", "wiki_changes_maintenance"
SAMPLE = replay.REPO / "samples/wiki_changes/recentchange.jsonl"
RUN_SECONDS = 900
EVENTS = 3000
# Components that are killed together, when all earlier records are published. The runtime restarts them.
KILLED = (("producer", "queries"), ("producer", "consumer"))
# Replayed meanwhile.
KILLED_EVENTS = 7_000
COLUMNS = ("event_id", "change_timestamp", "user", "bot", "type", "_kafka_partition", "_kafka_offset")
# Changes of a closed date, sent before each kill.
OLD_EVENTS, OLD_SERVERS = 12, 4

# (window's start, user, whether a bot) -> edits
Counts = dict[tuple[float, str, bool], int]


class Wiki(StreamUnderTest):
    """The stream on the stack of the integration tests, fed by its replay server."""

    def run(self, dag: str, **conf: Any) -> str:
        """A run of a DAG that ended well; its id."""
        run_id = self.airflow.trigger(dag, conf)
        feeds.assert_success(self, dag, run_id, self.airflow.wait(dag, run_id, RUN_SECONDS))
        return run_id

    def component(self, name: str) -> dict[str, Any]:
        """What supervisord knows of a part's process."""
        return self.process(SPEC.component(name).program)

    def wait_for_everything(self) -> None:
        """Until all that is on the topic is published or in quarantine. Raises TimeoutError."""
        wanted = {p: after for p, (first, after) in self.bounds().items() if after > first}
        wait_until(f"everything up to {wanted} published", lambda: self.ends() == wanted, PUBLISH_SECONDS, 1)

    def states(self) -> dict[str, str]:
        return {name: self.component(name)["statename"] for name in SPEC.components}

    def kill(self, name: str) -> None:
        """A component, and what it started; returns when the runtime has restarted it."""
        program = SPEC.component(name).program
        pid = self.status(program).pid
        signal_all(component_processes(self, program), signal.SIGKILL)
        wait_until(f"the restart of the {name}", lambda: self.status(program).pid not in (None, pid), 30, 0.1)

    def stop(self, name: str) -> None:
        """Returns when it has ended."""
        self.stack.daemon.proxy().stopProcess(SPEC.component(name).program)

    @property
    def replayed(self) -> dict[str, Any]:
        """What the replay server says of itself."""
        return replay.status(self.stack.context)

    def records(self) -> dict[int, int]:
        """Partition -> how many are on the topic."""
        return {partition: after for partition, (_, after) in self.bounds().items()}

    def following(self) -> int:
        """The number of the first replayed event that the producer has not committed."""
        saved = load_position(self.stack.platform("producer").kafka, SPEC.name)
        return frames.after(saved.position) if saved is not None and saved.position is not None else 0

    def wait_for_news(self) -> None:
        """Until more is published than the topic holds now."""
        total = sum(self.records().values())
        wait_until("news published", lambda: sum(self.ends().values()) > total, PUBLISH_SECONDS)

    def wait_for_all_and_news(self) -> None:
        """Until all that the topic holds now is published, and the topic holds more."""
        now = self.records()
        wait_until(f"{now} published", lambda: covers(self.ends(), now), PUBLISH_SECONDS)
        wait_until("news", lambda: sum(self.records().values()) > sum(now.values()), PUBLISH_SECONDS)

    def rows(self, day: str | None = None) -> list[dict[str, Any]]:
        """Return the rows of one day (ISO 8601), or all, with the columns COLUMNS."""
        found: list[dict[str, Any]] = self.scan(day).select(*COLUMNS).to_arrow().to_pylist()
        return found

    def files(self, day: str) -> int:
        """How many hold the changes of a day."""
        return len(list(self.scan(day).plan_files()))

    def scan(self, day: str | None) -> DataScan:
        return self.table().scan() if day is None else self.table().scan(f"change_timestamp_date = '{day}'")

    def assert_exact(self, rows: list[dict[str, Any]]) -> tuple[int, int]:
        """Every offset of the topic once, every event once in ``rows``, and of the replayed ones all from the
        first to the last, whose numbers it gives."""
        found = topic_offsets.compare_with_topic(self.stack, SPEC)
        assert found.is_ok, found.message()
        ids = Counter(row["event_id"] for row in rows)
        assert [event for event, times in ids.items() if times > 1] == []
        replayed = self.replayed
        feed = Feed(seed=replayed["feed"]["seed"], start=0, rate=1)
        there = [n for n in range(replayed["n"] + 1) if feed.event_id(n) in ids]
        # The feed was live before it had a listener.
        left_out = set(range(there[0], there[-1])) - set(there)
        assert left_out == set(), f"{len(left_out)} of the events from {there[0]} to {there[-1]} are missing"
        assert len(there) >= EVENTS
        return there[0], there[-1]

    @cached_property
    def results(self) -> ResultsReader:
        return ResultsReader(self.lake, SPEC, "editors")

    def counted(self) -> tuple[Counts, int]:
        """Edits as the query has them, and how many came too late."""
        results = self.results.read(0)
        return {
            (window.start, group.name, group.kind): group.value
            for window in results.windows
            for group in window.groups
        }, results.late

    def send_old(self, batch: int, at: datetime) -> None:
        """Changes of a time long ago, past the stream's producer."""
        sample = json.loads(SAMPLE.read_text().splitlines()[0])
        producer = self.producer()
        for number in range(OLD_EVENTS):
            name = f"{number % OLD_SERVERS}.example.org"
            event = sample | {"timestamp": int(at.timestamp()) + number, "server_name": name}
            event["meta"] = sample["meta"] | {"id": f"old-{batch}-{number}"}
            producer.produce(SPEC.topic.name, json.dumps(event).encode(), key=name.encode())
        assert producer.flush(30) == 0


def covers(reached: Mapping[int, int], wanted: Mapping[int, int]) -> bool:
    return all(reached.get(partition, 0) >= end for partition, end in wanted.items())


def count(rows: list[dict[str, Any]]) -> Counts:
    """Edits, as the query must have them, late ones with them."""
    assert EDITORS.window is not None
    width = EDITORS.window.size_minutes * 60
    found: Counter[tuple[float, str, bool]] = Counter()
    for row in rows:
        if row["type"] in ("edit", "new"):
            start = row["change_timestamp"].timestamp() // width * width
            found[start, row["user"], row["bot"]] += 1
    return dict(found)


@pytest.fixture
def wiki(stack: Stack) -> Iterator[Wiki]:
    made = Wiki(stack, SPEC)
    with feeds.running(made, (LOAD, STREAM, COMPACT)):
        yield made


@pytest.mark.parametrize("is_loaded", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_every_event_is_there_once_whatever_is_killed_up_to_the_page(wiki: Wiki, is_loaded: bool) -> None:
    """Also while two loads wait for their events."""
    old = datetime.now(UTC).replace(hour=12, minute=0) - timedelta(days=2)
    with step("a bounded load is verified event by event"):
        first = check_a_bounded_load(wiki)
    with step("supervision starts the producer"):
        check_supervision_starts_what_is_down(wiki, "producer")
    with step("each process is killed, and the runtime restarts it"):
        loads = start_two_loads(wiki) if is_loaded else {}
        kill_each(wiki, old)
        wiki.wait_for_news()
    if loads:
        with step("two loads, one of which waited meanwhile, verify events of their own"):
            first_load, second_load = (check_load(wiki, *load) for load in loads.items())
            assert not first_load.intersect(second_load)
    with step("every event is in the lake once"):
        rows = check_every_event(wiki, first)
    with step("the query has the lake's counts"):
        check_the_results(wiki, count(rows))
    with step("an operator finds the page in Airflow's navigation"):
        check_the_page(wiki)
    with step("closed dates are compacted, and hold the same rows"):
        check_compaction(wiki, old.date().isoformat())


@pytest.mark.exhaustive
def test_an_order_stops_every_part_until_another_starts_it(wiki: Wiki) -> None:
    wiki.run(LOAD, events=50, minutes=2)
    with step("supervision starts what is down"):
        check_supervision_starts_what_is_down(wiki)
    with step("an order stops all parts"):
        wiki.run(STREAM, action="stop", reason="a test")
        assert "RUNNING" not in wiki.states().values()
    with step("supervision leaves them stopped"):
        wiki.run(STREAM)
        assert "RUNNING" not in wiki.states().values()
    with step("another order starts them"):
        wiki.run(STREAM, action="start", reason="a test")
        assert set(wiki.states().values()) == {"RUNNING"}


def check_a_bounded_load(wiki: Wiki) -> int:
    """Gives the number of the first event. The load starts the producer, which is stopped at the end."""
    run_id = wiki.airflow.trigger(LOAD, {"events": EVENTS, "minutes": 4})
    wait_until("a producer at work", lambda: wiki.replayed["open"] > 0, RUN_SECONDS)
    replay.burst(wiki.stack.context, EVENTS, 1000)
    check_load(wiki, run_id, EVENTS)
    compared = wiki.airflow.returned(LOAD, run_id, "compare_sinks")
    ((sink, checked),) = compared["editors"]["sinks"].items()
    assert sink == f"iceberg {EDITORS.results_table}"
    assert checked["lake"] == checked["sink"] > 0
    assert wiki.airflow.returned(LOAD, run_id, "emit_asset_event")["asset"] == "wiki_changes"
    assert wiki.states()["producer"] == "RUNNING", "it goes on when the load is over"
    wiki.stop("producer")
    wiki.wait_for_everything()
    first, _ = wiki.assert_exact(wiki.rows())
    paths = {task.file.file_path for task in wiki.table().scan().plan_files()}
    assert all("/change_timestamp_date=" in path and "/server_name=" in path for path in paths)
    return first


def start_two_loads(wiki: Wiki) -> dict[str, int]:
    """Run -> how many events it waits for. Returns when the first waits; then the second has its turn."""
    many, few = KILLED_EVENTS - 1_000, 300
    first = wiki.airflow.trigger(LOAD, {"events": many, "minutes": 6})
    wait_until("a load that waits", lambda: is_waiting(wiki, first), RUN_SECONDS)
    second = wiki.airflow.trigger(LOAD, {"events": few, "minutes": 6})
    return {first: many, second: few}


def is_waiting(wiki: Wiki, run_id: str) -> bool:
    states = {task["task_id"]: task["state"] for task in wiki.airflow.tasks(LOAD, run_id)}
    return bool(states["produce"] == "deferred")


def check_load(wiki: Wiki, run_id: str, events: int) -> OffsetRanges:
    """The offsets of a load that ended well, with so many events or more."""
    feeds.assert_success(wiki, LOAD, run_id, wiki.airflow.wait(LOAD, run_id, RUN_SECONDS))
    made, proof = (wiki.airflow.returned(LOAD, run_id, task) for task in ("produce", "validate"))
    assert made["records"] >= events
    assert proof["status"] == "passed"
    without = proof["without_record"]
    found = proof["published"] + proof["quarantined"]
    # Each transaction of the producer has a marker.
    assert found + without["control"] + without["aborted"] == made["records"]
    return produced.offsets_of_all(airflow_calls.document(wiki.stack, made["produced"]))


def check_supervision_starts_what_is_down(wiki: Wiki, *down: str) -> None:
    """The components ``down``, and the consumer if it does not run."""
    run_id = wiki.run(STREAM)
    assert set(wiki.states().values()) == {"RUNNING"}
    tasks = wiki.airflow.tasks(STREAM, run_id)
    assert {task["state"] for task in tasks} == {"success"}, tasks
    # What needs nothing is ended by its trigger, without a worker.
    acted = {task["task_id"] for task in tasks if task["pid"] is not None}
    assert set(down) <= acted, tasks
    wiki.wait_for_news()


def kill_each(wiki: Wiki, old: datetime) -> None:
    """While events come fast, and changes of the time ``old`` among them."""
    replay.burst(wiki.stack.context, KILLED_EVENTS, 500)
    for number, names in enumerate(KILLED):
        wiki.send_old(number, old)
        wiki.wait_for_all_and_news()
        for name in names:
            wiki.kill(name)


def check_every_event(wiki: Wiki, first: int) -> list[dict[str, Any]]:
    """Up to the newest that the feed has, from ``first`` on; gives the table's rows. Afterwards nothing
    comes: the producer is stopped."""
    newest = wiki.replayed["n"]
    wait_until(f"event {newest} sent", lambda: wiki.following() > newest, PUBLISH_SECONDS)
    wiki.stop("producer")
    wiki.wait_for_everything()
    rows = wiki.rows()
    begun, last = wiki.assert_exact(rows)
    assert begun == first
    assert last >= newest
    return rows


def check_the_results(wiki: Wiki, lake: Counts) -> None:
    """Every edit is counted once, or is among the few that came too late."""
    edits = sum(lake.values())
    assert edits > EVENTS / 2

    def all_of_it() -> bool:
        counted, late = wiki.counted()
        return sum(counted.values()) + late == edits

    wait_until("the results of it all", all_of_it, PUBLISH_SECONDS)
    counted, late = wiki.counted()
    assert all(lake[key] >= number for key, number in counted.items())
    assert late < edits / 10


def check_the_page(wiki: Wiki) -> None:
    """Check the page of real results; tests/browser checks its login, and the rest over a made-up one."""
    with browser.launch() as chromium:
        page = chromium.new_page(viewport=browser.DESKTOP)
        url, password = service.url(wiki.stack.context), wiki.stack.secrets["airflow_operator"]
        browser.log_in(page, url, service.USER, password)
        assert EDITORS.page is not None
        frame = browser.open_results(page, EDITORS.page.title)
        expect(frame.get_by_role("row").nth(10)).to_be_visible(timeout=30_000)
        newest = wiki.results.read(0).windows[0]
        busiest = max(newest.groups, key=lambda group: group.value)
        expect(frame.get_by_role("table")).to_contain_text(busiest.name)
        browser.screenshot(page, "wiki-changes-page")


def check_compaction(wiki: Wiki, day: str) -> None:
    """Compact ``day``, for which several batches made files, and compare its rows."""
    before, files = wiki.rows(day), wiki.files(day)
    assert len(before) == len(KILLED) * OLD_EVENTS
    assert files >= len(KILLED) * OLD_SERVERS
    run_id = wiki.run(COMPACT)
    checked = wiki.airflow.returned(COMPACT, run_id, "verify_compaction")
    rewritten = checked["tables"][SPEC.table]
    assert (rewritten["files_before"], rewritten["files_after"]) == (files, OLD_SERVERS)
    assert wiki.files(day) == OLD_SERVERS
    assert sorted(wiki.rows(day), key=str) == sorted(before, key=str)
    found = topic_offsets.compare_with_topic(wiki.stack, SPEC)
    assert found.is_ok, found.message()
