"""The Wikipedia stream through Airflow: from the replayed feed to the page, its processes killed on the way.

The tests go on from each other: a load first, then everything runs, then it is killed, then it is looked at.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from local import evidence
from local.drills.faults import family, signal_all
from local.drills.site import LAND_SECONDS, Site
from local.replay.feed import Feed
from local.services import airflow as service
from local.services import replay
from local.stack import Stack, wait_until
from sluice.clients.report import ReportReader
from tests.integration import streams
from tests.support import browser

SPEC = streams.load("wiki_changes")
LOAD, STREAM, COMPACT = "wiki_changes_load", "wiki_changes_stream", "wiki_changes_compact"
RUN_SECONDS = 420
EVENTS = 3000
KILLS = 5
DAY = 86_400


class Wiki(Site):
    """The stream on the stack of the integration tests, fed by its replay server."""

    def run(self, dag: str, **conf: Any) -> str:
        """A run of a DAG that ended well; its id. What failed is printed."""
        run_id = self.airflow.trigger(dag, conf)
        state = self.airflow.wait(dag, run_id, RUN_SECONDS)
        tasks = {task["task_id"]: task["state"] for task in self.airflow.tasks(dag, run_id)}
        for task in (name for name, end in tasks.items() if end == "failed"):
            print(f"{run_id} {task} failed:\n" + "\n".join(self.airflow.log(dag, run_id, task))[-4000:])
        assert state == "success", tasks
        return run_id

    def part(self, name: str) -> dict[str, Any]:
        """What supervisord knows of a part's process."""
        return self.process(SPEC.part(name).program)

    def kill(self, name: str) -> None:
        """A part's process, and what it started."""
        pid = self.part(name)["pid"]
        signal_all(family(pid), signal.SIGKILL)
        wait_until(f"the end of the {name}", lambda: self.part(name)["pid"] != pid, 30, 0.1)

    def start(self, name: str) -> None:
        """Past Airflow, as a supervising run would."""
        self.stack.supervisor().startProcess(SPEC.part(name).program)

    def stop(self, name: str) -> None:
        """Returns when it has ended."""
        self.stack.supervisor().stopProcess(SPEC.part(name).program)

    def replayed(self) -> dict[str, Any]:
        """What the replay server says of itself."""
        found: dict[str, Any] = httpx.get(
            f"{replay.url(self.stack.context)}/status", timeout=5, trust_env=False
        ).json()
        return found

    def rows(self, *columns: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.table().scan(selected_fields=columns).to_arrow().to_pylist()
        return found

    def event_ids(self) -> Counter[str]:
        return Counter(row["event_id"] for row in self.rows("event_id"))

    def assert_exact(self) -> None:
        """Every offset of the topic once, every event once, and none of the replayed ones left out."""
        found = evidence.exactness(self.stack, SPEC)
        assert found.is_exact, found.sentence()
        ids = self.event_ids()
        assert [event for event, times in ids.items() if times > 1] == []
        feed = Feed(seed=self.replayed()["feed"]["seed"], start=0, pace=1)
        there = [n for n in range(self.replayed()["n"] + 1) if feed.event_id(n) in ids]
        # The feed was live before somebody listened.
        left_out = set(range(there[0], there[-1])) - set(there)
        assert left_out == set(), f"{len(left_out)} of the events from {there[0]} to {there[-1]} are missing"
        assert len(there) >= EVENTS

    def counted(self) -> dict[tuple[float, str, bool], int]:
        """Edits by (window, user, bot) as the report has them, late ones with them."""
        assert SPEC.report is not None
        report = ReportReader(self.lake, SPEC.report.table).read(0)
        return {
            (window.start, editor.user, editor.bot): editor.edits + editor.late
            for window in report.windows
            for editor in window.editors
        }

    def in_the_lake(self) -> dict[tuple[float, str, bool], int]:
        """The same from the table's rows."""
        assert SPEC.report is not None
        width = SPEC.report.window_minutes * 60
        found: Counter[tuple[float, str, bool]] = Counter()
        for row in self.rows("change_timestamp", "user", "bot", "type"):
            if row["type"] in ("edit", "new"):
                start = row["change_timestamp"].timestamp() // width * width
                found[start, row["user"], row["bot"]] += 1
        return dict(found)


@pytest.fixture(scope="module")
def wiki(stack: Stack) -> Iterator[Wiki]:
    made = Wiki(stack, SPEC)
    for dag in (LOAD, STREAM, COMPACT):
        made.airflow.wait_for_dag(dag)
        made.airflow.unpause(dag)
    yield made
    made.run(STREAM, action="stop", why="the end of this stream's tests")
    for dag in (LOAD, STREAM, COMPACT):
        made.airflow.pause(dag)


@pytest.fixture(autouse=True)
def _logs(wiki: Wiki) -> Iterator[None]:
    yield
    for part in SPEC.parts.values():
        log = wiki.stack.home.logs / f"{part.program}.log"
        if log.exists():
            print(f"{part.name}:\n{log.read_text(errors='replace')[-3000:]}")


def test_a_bounded_load_is_proved_event_by_event(wiki: Wiki) -> None:
    replay.burst(wiki.stack.context, EVENTS, 1000)
    run_id = wiki.run(LOAD, events=EVENTS, minutes=4)
    made = wiki.airflow.xcom(LOAD, run_id, "produce")
    proof = wiki.airflow.xcom(LOAD, run_id, "validate")
    assert made["records"] == EVENTS
    assert (proof["status"], proof["published"] + proof["quarantined"]) == ("exact", EVENTS)
    assert wiki.airflow.xcom(LOAD, run_id, "announce")["asset"] == "wiki_changes"
    wiki.assert_exact()
    paths = {task.file.file_path for task in wiki.table().scan().plan_files()}
    assert all("/change_timestamp_date=" in path and "/server_name=" in path for path in paths)
    # One producer at a time: the load's own has ended with it.
    assert wiki.part("producer")["statename"] in ("STOPPED", "EXITED")


def test_supervision_starts_the_producer_and_the_report(wiki: Wiki) -> None:
    wiki.run(STREAM)
    assert {wiki.part(name)["statename"] for name in SPEC.parts} == {"RUNNING"}
    before = len(wiki.event_ids())
    wait_until("more events in the lake", lambda: len(wiki.event_ids()) > before, LAND_SECONDS, 2)
    run_id = wiki.run(STREAM)
    for part in ("producer", "report"):
        seen = wiki.airflow.xcom(STREAM, run_id, f"tend_{part}")["diagnosis"]
        assert seen["verdict"] in ("healthy", "idle"), seen


def test_each_process_is_killed_and_every_event_is_there_once(wiki: Wiki) -> None:
    chance = random.Random(5)  # noqa: S311
    replay.burst(wiki.stack.context, 20_000, 500)
    for number in range(KILLS):
        time.sleep(chance.uniform(1, 4))
        wiki.kill("producer")
        if number == 1:
            wiki.kill("report")
        if number == 2:
            wiki.kill("consumer")
        if number < KILLS - 1:
            wiki.start("producer")
    # Who starts them again in earnest.
    run_id = wiki.run(STREAM)
    acts = [wiki.airflow.xcom(STREAM, run_id, f"tend_{part}")["act"] for part in ("producer", "report")]
    assert all(act["done"] for act in acts), acts
    last = wiki.replayed()["n"]
    feed = Feed(seed=wiki.replayed()["feed"]["seed"], start=0, pace=1)
    wait_until(f"event {last} in the lake", lambda: feed.event_id(last) in wiki.event_ids(), RUN_SECONDS, 3)
    # The feed goes on; what is compared has to stand still.
    wiki.stop("producer")
    wiki.wait_for_everything()
    wiki.assert_exact()
    wiki.start("producer")


def test_the_report_says_what_the_lake_holds(wiki: Wiki) -> None:
    # The load that asks the stream's own producer for its events, and then that one is stopped.
    run_id = wiki.run(LOAD, events=200, minutes=2)
    assert wiki.airflow.xcom(LOAD, run_id, "validate")["status"] == "exact"
    wiki.stop("producer")
    wiki.wait_for_everything()
    wait_until("the report of it all", lambda: wiki.counted() == wiki.in_the_lake(), LAND_SECONDS, 2)
    assert sum(wiki.counted().values()) > EVENTS / 2


def test_the_page_shows_it_behind_airflows_login(wiki: Wiki) -> None:
    assert SPEC.report is not None
    url = service.url(wiki.stack.context)
    api = f"{url}/sluice/api/reports/{SPEC.name}"
    assert httpx.get(api, timeout=20, trust_env=False).status_code == 401
    assert SPEC.report is not None
    report = ReportReader(wiki.lake, SPEC.report.table).read(0)
    with browser.launch() as chromium:
        page = chromium.new_page(viewport=browser.DESKTOP)
        browser.log_in(page, url, service.USER, wiki.stack.secrets["airflow_operator"])
        frame = browser.open_report(page, SPEC.report.title)
        expect(frame.get_by_role("row").nth(10)).to_be_visible(timeout=30_000)
        busiest = max(report.windows[0].editors, key=lambda editor: editor.edits)
        expect(frame.get_by_role("table")).to_contain_text(busiest.user)
        browser.screenshot(page, "wiki-changes-page")


def test_closed_dates_are_compacted_and_proved(wiki: Wiki) -> None:
    """Changes of the day before yesterday, in several batches."""
    at = int((datetime.now(UTC) - timedelta(days=2)).timestamp())
    sample = json.loads((replay.REPO / "samples/wiki_changes/recentchange.jsonl").read_text().splitlines()[0])
    producer = wiki.producer()
    for batch in range(3):
        for number in range(12):
            name = f"{number % 4}.example.org"
            event = sample | {"timestamp": at + number, "server_name": name}
            event["meta"] = sample["meta"] | {"id": f"old-{batch}-{number}"}
            producer.produce(SPEC.topic.name, json.dumps(event).encode(), key=name.encode())
        assert producer.flush(30) == 0
        wiki.wait_for_everything()
    before = wiki.in_the_lake()
    run_id = wiki.run(COMPACT)
    found = wiki.airflow.xcom(COMPACT, run_id, "check")
    assert (found["files_before"], found["files_after"]) == (12, 4)
    assert wiki.in_the_lake() == before
    assert evidence.exactness(wiki.stack, SPEC).is_exact
