"""The pages of streams: what they show of what is known, to whom, and what they keep to themselves."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from html import unescape

import pytest
from fastapi import HTTPException
from fastapi.testclient import TestClient

from sluice.catalog_check.status import Kept, status
from sluice.config.platform_sections.catalog import Catalog
from sluice.config.platform_sections.lake import Lake
from sluice.config.streams import Declared
from sluice.core.errors import Unreachable
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.processes import exits
from sluice.core.processes.status import ProcessState
from sluice.core.schema_versions.compared import Difference, Kind
from sluice.core.schema_versions.offsets import Seen
from sluice.core.schema_versions.stream import Column, Latest, StreamSchema, Version
from sluice.core.tables.without_record import WithoutRecord
from sluice.supervision.observer.component_view import LastCheck
from sluice.supervision.observer.live import Live, LoadResult
from sluice.supervision.rules.sample import LAKE
from sluice.supervision.rules.status import Health, HealthReport
from sluice.web.data.airflow_db import LoadRun, OpenApproval
from sluice.web.rights import may_read_log, may_read_stream, reader
from sluice.web.streams import pages as streams
from tests.support import observed
from tests.support.observed import RUN
from tests.support.pages import HOSTILE, STREAM, Made, SomeReader, make_app, spec

ALL, ONE, LOG = "/streams", f"/streams/{STREAM}", f"/streams/{STREAM}/log/producer"


NOW = time.time()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """At NOW, however slow the machine is."""
    monkeypatch.setattr(streams, "clock", lambda: NOW)
    return make_app(now=NOW)


@pytest.fixture
def client(made: Made) -> Iterator[TestClient]:
    with TestClient(made.app, raise_server_exceptions=False) as opened:
        yield opened


def text_of(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def section(html: str, of: str) -> str:
    found = re.search(rf'<section[^>]*id="{of}".*?</section>', html, re.S)
    assert found, of
    return found[0]


def test_all_streams_at_a_glance(made: Made, client: TestClient) -> None:
    html = client.get(ALL).text
    card = text_of(section(html, f"stream-{STREAM}"))
    # Health since when, lag in records and time, time until loss, rows/s.
    assert "consumer healthy for 1 h 6 min 120 30 s over 6 h 10.0 " in card
    assert "4 s ago, 100 rows in 2.0 s" in card
    assert f"stream-{STREAM} is RUNNING (pid 42)" in card
    assert "120 records wait, 10/s arrive" in card
    assert "producer idle for 1 min 30 s" in card
    assert f"Supervision ( {STREAM}_stream ): last check 41 s ago." in card
    assert f"verified {RUN} 29,999 records and 29,999 rows, each once proof 1 h ago" in card
    assert "Need a person 0 of 3 components" in text_of(html)
    assert "Way out" not in card, "no action is needed"


def test_what_needs_a_person_says_why_and_the_way_out(made: Made, client: TestClient) -> None:
    at_risk = observed.consumer(spec(), NOW, Health.DATA_AT_RISK, restarts=[NOW - 60])
    made.observed.lives[STREAM, "consumer"] = at_risk
    html = client.get(ALL).text
    card = section(html, f"stream-{STREAM}")
    assert 'data-severity="error"' in card
    assert (
        "Retention deletes unread records within retention_margin_seconds. Way out: Make the stream publish"
        in text_of(card)
    )
    assert "Need a person 1 of 3 components" in text_of(html)


def test_the_worst_stream_comes_first(made: Made, client: TestClient) -> None:
    specs = [replace(spec(), name=name) for name in ("a", "b", "c")]
    made.declared = Declared(specs)
    made.observed.lives |= observed.streams(specs, NOW).lives
    made.observed.lives["b", "queries"] = observed.component(specs[1], "queries", NOW, Health.DOWN)
    made.observed.lives["c", "producer"] = observed.component(specs[2], "producer", NOW, Health.FLAPPING)
    made.airflow = observed.airflow(specs, NOW)
    assert re.findall(r'id="stream-(\w)"', client.get(ALL).text) == ["c", "b", "a"]


def test_what_was_not_observed_lately_does_not_look_well(made: Made, client: TestClient) -> None:
    lives = made.observed.lives
    lives[STREAM, "consumer"] = observed.consumer(spec(), NOW - 3600)
    lives[STREAM, "producer"] = Live()
    recorded = {"health": "idle", "message": "it waits", "at": "2026-01-01T00:00:00+00:00"}
    lives[STREAM, "queries"] = Live(recorded=recorded)
    card = section(client.get(ALL).text, f"stream-{STREAM}")
    assert 'data-severity="error" data-current="false">healthy<' in card
    assert '<td data-label="Observed" class="late">1 h ago</td>' in card
    assert 'data-severity="none" data-current="false">not observed yet<' in card
    assert "as of its last check: it waits" in card
    assert 'data-current="true"' not in section(card, f"stream-{STREAM}").split("Last loads")[0]


def test_lag_of_a_topic_that_cannot_be_read_is_unknown(made: Made, client: TestClient) -> None:
    known = observed.consumer(spec(), NOW)
    assert known.sample is not None
    errors = {LAKE: "the catalog at 10.1.2.3:5432 does not answer"}
    made.observed.lives[STREAM, "consumer"] = replace(
        known,
        at=NOW + 10,
        sample=replace(known.sample, at=NOW + 10, errors=errors),
        report=HealthReport(Health.UNKNOWN, f"lake: {errors[LAKE]}"),
        errors={"history": "ledger s3://warehouse/ledger/x: no answer"},
    )
    card = section(client.get(ALL).text, f"stream-{STREAM}")
    assert '<td data-label="Lag" class="number">–</td>' in card
    assert "lake: the catalog at … does not answer" in card
    assert "history: ledger …: no answer" in text_of(card)
    assert "10.1.2.3" not in card
    assert "warehouse" not in card


def test_what_is_not_used_is_off(made: Made, client: TestClient) -> None:
    made.airflow = replace(made.airflow, checks={STREAM: LastCheck("d", True)})
    stopped = observed.process("stream", ProcessState.STOPPED, NOW)
    for name, live in ((name, made.observed.live(STREAM, name)) for name in spec().components):
        assert live.sample is not None
        made.observed.lives[STREAM, name] = replace(
            live,
            sample=replace(live.sample, process=stopped),
            report=HealthReport(Health.UNKNOWN, "no topic"),
        )
    html = client.get(ALL).text
    assert html.count('data-severity="none" data-current="true">off<') == 3
    assert "Need a person 0 of 3" in text_of(html)
    # Neither lost records nor a process that died are nothing.
    consumer = made.observed.live(STREAM, "consumer")
    made.observed.lives[STREAM, "consumer"] = replace(consumer, report=HealthReport(Health.DATA_LOST, "m"))
    assert ">data lost<" in client.get(ALL).text
    assert consumer.sample is not None
    died = replace(consumer.sample, process=observed.process("stream", ProcessState.EXITED, NOW))
    made.observed.lives[STREAM, "consumer"] = replace(
        consumer, sample=died, report=HealthReport(Health.DOWN, "m")
    )
    assert ">down<" in client.get(ALL).text
    # A process that runs without supervision is judged.
    made.observed.lives[STREAM, "producer"] = observed.component(spec(), "producer", NOW, Health.STALLED)
    assert "recovering" in section(client.get(ALL).text, f"stream-{STREAM}")


def test_suspended_and_by_whom(made: Made, client: TestClient) -> None:
    made.observed.lives[STREAM, "producer"] = observed.component(
        spec(), "producer", NOW, Health.SUSPENDED, suspended="by ada since 2026-01-01T00:00:00: new disk"
    )
    html = client.get(ALL).text
    assert "suspended by ada since 2026-01-01T00:00:00: new disk" in text_of(html)
    assert "Suspended 1 by a user" in text_of(html)
    assert f"Trigger {STREAM}_stream with action start" in text_of(html)


def test_open_approvals_name_who_may_give_them(made: Made, client: TestClient) -> None:
    made.airflow = replace(
        made.airflow,
        approvals=[
            OpenApproval(f"{STREAM}_change", "a b+c__1", "approve_change", "Redo?", NOW - 60, ()),
            OpenApproval(f"{STREAM}_change", "r2", "approve_change", "Revert?", NOW - 90, ("ada", "bob")),
            OpenApproval("other_change", "r3", "approve_change", "Of another", NOW, ()),
        ],
    )  # fmt: skip
    for page in (ALL, ONE):
        html = section(client.get(page).text, "waiting")
        assert f'/dags/{STREAM}_change/runs/a%20b%2Bc__1/tasks/approve_change/required_actions"' in html
        text = text_of(html)
        assert "Redo? asked 1 min ago; may be answered by every Airflow user who may update" in text
        assert "Revert? asked 1 min 30 s ago; may be answered by ada, bob" in text
        assert "Of another" not in text


@pytest.mark.parametrize("health", [Health.FLAPPING, Health.DOWN])
def test_what_is_left_to_a_person_says_which_actions_there_are(
    made: Made, client: TestClient, health: Health
) -> None:
    for page in (ALL, ONE):
        assert 'id="waiting"' not in client.get(page).text
    live = observed.component(spec(), "producer", NOW, health)
    assert live.sample is not None
    ended = observed.process("producer", ProcessState.EXITED, NOW)
    if health is Health.DOWN:
        # Over its configuration; after any other end supervision restarts it.
        made.observed.lives[STREAM, "producer"] = replace(live, sample=replace(live.sample, process=ended))
        assert 'id="waiting"' not in client.get(ALL).text
        ended = replace(ended, exit_status=exits.CONFIGURATION)
    made.observed.lives[STREAM, "producer"] = replace(live, sample=replace(live.sample, process=ended))
    for page in (ALL, ONE):
        html = section(client.get(page).text, "waiting")
        assert f'../dags/{STREAM}_stream">Restart or stop the producer of {STREAM}<' in html
        assert f"{health.value}" in text_of(html)
        assert f"trigger {STREAM}_stream with action restart, or with action stop" in text_of(html)
    assert "Actions and approvals 1 wait for a person" in text_of(client.get(ALL).text)
    assert 'data-severity="error"' in section(client.get(ALL).text, f"stream-{STREAM}")


def test_loads_that_failed_or_are_under_way(made: Made, client: TestClient) -> None:
    made.airflow = replace(
        made.airflow,
        runs=[
            LoadRun(f"{STREAM}_load", "r2", "failed", NOW - 30),
            LoadRun(f"{STREAM}_backfill", "r3", "running", NOW - 7200),
            LoadRun("other_load", "r4", "failed", NOW),
            LoadRun(f"{STREAM}_load", "r5", "failed", NOW - 35),
        ],
    )
    known = made.observed.lives[STREAM, "consumer"]
    failed = LoadResult(NOW - 40, "r5", False, 3.0, problems=["1 gap", "2 duplicates"])
    made.observed.lives[STREAM, "consumer"] = replace(known, loads=[failed, *known.loads])
    loads = text_of(section(client.get(ONE).text, "loads"))
    assert "not verified r5 1 gap; 2 duplicates 40 s ago" in loads
    assert loads.count("r5") == 1, "its run is none of its own"
    loads = loads.replace("not verified r5 1 gap; 2 duplicates 40 s ago ", "")
    assert loads.startswith(f"Last loads failed r2 30 s ago verified {RUN}")
    assert loads.endswith("running r3 2 h ago")
    assert "r4" not in loads
    # Verified, and then a later step failed: the run is no good news.
    made.airflow = replace(made.airflow, runs=[LoadRun(f"{STREAM}_load", RUN, "failed", NOW - 3500)])
    html = section(client.get(ONE).text, "loads")
    assert f"verified, run failed {RUN}" in text_of(html)
    assert 'data-severity="error" data-current="true">verified, run failed<' in html
    assert text_of(html).count(RUN) == 1


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (LastCheck("d"), "Airflow has no such DAG"),
        (LastCheck("d", True, 0.0, True), "paused, so nothing is restarted"),
        (LastCheck("d", False), "no check in the last day"),
        (LastCheck("d", False, -10.0, False), "last check 10 s ago; it failed."),
        (LastCheck("d", False, -3600.0, True), "last check 1 h ago; it is late."),
    ],
)
def test_supervision(made: Made, client: TestClient, check: LastCheck, text: str) -> None:
    if check.at is not None:
        check = replace(check, at=NOW + check.at)
    made.airflow = replace(made.airflow, checks={STREAM: check})
    assert text in text_of(client.get(ALL).text).replace(" .", ".")


def test_an_invalid_stream_removes_itself_and_says_why(made: Made, client: TestClient) -> None:
    made.declared = Declared([spec()], {"rides": "rides/stream.toml: unknown key 'tabel'"})
    html = client.get(ALL).text
    assert "rides/stream.toml: unknown key 'tabel'" in text_of(section(html, "invalid-rides"))
    assert f'id="stream-{STREAM}"' in html
    assert client.get("/streams/rides").status_code == 503
    assert client.get("/streams/rides").json() == {"detail": "rides/stream.toml: unknown key 'tabel'"}
    made.declared = Declared(problems=["SLUICE_STREAMS: /srv/x is no folder"])
    html = client.get(ALL).text
    assert "SLUICE_STREAMS: … is no folder" in text_of(html)
    assert "There is no stream" not in html


def test_a_streams_own_page(made: Made, client: TestClient) -> None:
    made.past = [
        ("consumer", observed.event("health", NOW - 60, health="stalled", message="no progress for 61 s")),
        ("consumer", observed.event("restart", NOW - 55, who="schedule", reason="it is stalled")),
        ("producer", observed.event("resume", NOW - 90, who="ada")),
        ("consumer", observed.event("recovered", NOW - 50, seconds=7.6)),
    ]
    html = client.get(ONE).text
    history = text_of(section(html, "history"))
    assert [
        words in history for words in ("stalled no progress for 61 s", "restart by schedule it is stalled")
    ]
    order = ["recovered in 8 s", "restart by schedule", "consumer: stalled", "resume by ada"]
    assert [history.index(words) for words in order] == sorted(history.index(words) for words in order)
    batches = section(html, "batches")
    assert batches.count("<tr>") == 1 + 5
    assert "0=[11780,11880)" in text_of(batches)
    assert "Lag now 120, at most 120 records" in text_of(section(html, "charts"))
    assert "Published now 10.0, at most 10.0 records/s" in text_of(section(html, "charts"))
    assert len(re.findall(r"<polyline", html)) == 2
    assert "a line of the queries" in section(html, "logs")
    for health in Health:
        assert f"<dt>{health.value}</dt>" in html
    assert f'href="../../dags/{STREAM}_stream"' in html


def test_a_batch_says_which_of_its_offsets_have_no_record(made: Made, client: TestClient) -> None:
    live = made.observed.lives[STREAM, "consumer"]
    newest, *older = live.batches
    skipped = WithoutRecord(skipped=OffsetRanges.of({0: [(11_780, 11_829)]}))
    lives = made.observed.lives
    lives[STREAM, "consumer"] = replace(
        live, batches=[replace(newest, rows=50, without_record=skipped), *older]
    )
    text = text_of(section(client.get(ONE).text, "batches"))
    assert "In quarantine Without a record Files" in text
    assert "50 1 49 tombstones, which the stream skips 1 2" in text, "rows, rejected, without, files, seconds"
    assert "100 0 0 1 2" in text


def test_what_cannot_be_read_is_said_where_it_would_be(made: Made, client: TestClient) -> None:
    made.logs["producer"] = Unreachable("supervisord at http://127.0.0.1:9001/RPC2 does not answer")
    html = client.get(ONE).text
    assert "supervisord at … does not answer" in section(html, "logs")
    assert "9001" not in html
    assert client.get(ONE).status_code == 200
    answer = client.get(LOG)
    assert (answer.status_code, answer.json()["detail"]) == (503, "supervisord at … does not answer")


def test_a_log(client: TestClient) -> None:
    assert "a line of the producer" in client.get(LOG).text
    assert client.get(f"/streams/{STREAM}/log/nothing").status_code == 404


def test_texts_are_text(made: Made, client: TestClient) -> None:
    hostile = HOSTILE[0] + HOSTILE[1]
    made.observed.lives[STREAM, "producer"] = observed.component(
        spec(), "producer", NOW, Health.DOWN, report=HealthReport(Health.DOWN, hostile), suspended=hostile
    )
    made.past = [("consumer", observed.event("stop", NOW, who=hostile, reason=hostile))]
    made.logs["producer"] = [hostile]
    made.airflow = replace(
        made.airflow,
        approvals=[OpenApproval(f"{STREAM}_change", hostile, "t", hostile, NOW, (hostile,))],
        runs=[LoadRun(f"{STREAM}_load", hostile, "failed", NOW)],
    )
    for page in (ALL, ONE, LOG):
        html = client.get(page).text
        assert "<img src=x" not in html, page
        assert "window.hit=1;alert(2)</script>" not in html, page


def test_streams_that_the_user_may_not_read_are_not_there(made: Made, client: TestClient) -> None:
    other = replace(spec(), name="other")
    made.declared = Declared([other, spec()], {"broken": "a reason", "hidden": "a secret reason"})
    made.observed.lives |= observed.streams([other], NOW).lives
    made.airflow = observed.airflow([other, spec()], NOW)
    made.app.dependency_overrides[reader] = lambda: SomeReader("other", "broken")
    html = client.get(ALL).text
    assert 'id="stream-other"' in html
    assert 'id="invalid-broken"' in html
    assert STREAM not in html
    assert "hidden" not in re.sub(r'class="hidden"|\bhidden>', "", html)
    # Without the right to read logs a stream's page has none.
    assert 'id="logs"' not in client.get("/streams/other").text
    made.app.dependency_overrides[reader] = lambda: SomeReader()
    assert "There is no stream whose DAGs you may read." in client.get(ALL).text


@pytest.mark.parametrize("path", [ONE, LOG])
def test_a_page_asks_for_the_right(made: Made, client: TestClient, path: str) -> None:
    def refuse() -> None:
        raise HTTPException(404, "no stream")

    del made.app.dependency_overrides[may_read_log if path == LOG else may_read_stream]
    made.app.dependency_overrides[may_read_log if path == LOG else may_read_stream] = refuse
    assert client.get(path).status_code == 404


def test_twenty_streams_take_less_than_a_third_of_a_second(made: Made, client: TestClient) -> None:
    """On the server, by the CPU's time: the page costs no request to any observed system."""
    specs = [replace(spec(), name=f"s{n}") for n in range(20)]
    made.declared = Declared(specs)
    made.observed.lives |= observed.streams(specs, NOW).lives
    made.airflow = observed.airflow(specs, NOW)
    client.get(ALL)
    began = time.process_time()
    html = client.get(ALL).text
    assert time.process_time() - began < 0.3
    assert html.count("<section") == 20


def test_processes_that_restart_are_amber(made: Made, client: TestClient) -> None:
    down = observed.component(spec(), "queries", NOW, Health.DOWN)
    assert down.sample is not None
    stopped = observed.process("queries", ProcessState.EXITED, NOW)
    made.observed.lives[STREAM, "queries"] = replace(down, sample=replace(down.sample, process=stopped))
    html = client.get(ALL).text
    assert 'data-severity="recovering" data-current="true">down<' in html
    assert "Recovering 1 supervision restarts them" in text_of(html)


def test_the_schema_of_a_stream_and_where_the_registry_is_ahead(made: Made, client: TestClient) -> None:
    at = int(NOW * 1000)
    made.schema = StreamSchema(
        [Column("id", "long", at), Column("channel", "string", at, is_latest=True), Column("x", "int")],
        follows="ab12",
        has_registry=True,
        versions=[Version(8, Seen(at, {0: (3, 17), 1: (0, 9)}), "version 2 of orders-value", ["channel"])],
        seen_versions=30,
        latest=Latest(
            "orders-value",
            3,
            9,
            [
                Difference("address.zip", Kind.MISSING, "", "int32"),
                Difference("number", Kind.WIDER, "int32", "int64"),
                Difference("lines[].price", Kind.UNFOLLOWED, "decimal(9, 2)", HOSTILE[0]),
            ],
        ),
        complete={0: (0, 18), 1: (4, 10)},
    )
    html = section(client.get(ONE).text, "schema")
    text = text_of(html)
    assert "Subject orders-value: newest version 3 (schema id 9): 3 differences" in text
    assert "address.zip: missing in the table (int32)" in text
    assert "number: wider in the schema: the table has int32, the schema int64" in text
    assert "lines[].price: cannot be followed: the table has decimal(9, 2), the schema <img" in text
    assert "<img" not in html
    assert "8 version 2 of orders-value" in text
    assert "0: 3 to 17, 1: 0 to 9 channel" in text
    assert "1 of 30 ids of records, recorded since: 0: 0, 1: 4" in text
    assert "3 columns of the table" in text
    assert "channel string at the latest " in text
    assert "x int not known" in text


def test_a_registry_that_is_down_leaves_the_rest_of_the_schema(made: Made, client: TestClient) -> None:
    made.schema = StreamSchema(
        [Column("id", "long")],
        has_registry=True,
        versions=[Version(8, Seen(1, {0: (3, 17)}))],
        problem="schema registry 'main': http://10.1.2.3:8081/x: ConnectError: refused",
    )
    text = text_of(section(client.get(ONE).text, "schema"))
    assert "The registry does not say: schema registry 'main': …: ConnectError: refused" in text
    assert "0: 3 to 17" in text
    assert "no batch has recorded the schemas of its records" in text


def test_a_stream_without_a_registry_has_its_columns(made: Made, client: TestClient) -> None:
    text = text_of(section(client.get(ONE).text, "schema"))
    assert text.startswith("Schema 1 columns of the table ")
    assert "Subject" not in text
    made.schema = Unreachable("the catalog at 10.1.2.3:5432 does not answer")
    found = client.get(ONE)
    assert (found.status_code, "catalog at … does not answer" in section(found.text, "schema")) == (200, True)


def test_a_catalog_is_shown_with_what_was_found_of_it(made: Made, client: TestClient) -> None:
    assert "compares a table's whole metadata" in text_of(section(client.get(ONE).text, "catalog"))
    made.catalog = status("rest", Kept(1, 1_795_802_400.0, "untouched-ref"))
    html = section(client.get(ONE).text, "catalog")
    assert "rest: breaks promise untouched-ref" in text_of(html)
    assert 'class="late"' in html
    made.catalog = status("rest", Kept(1, 1_795_802_400.0))
    html = section(client.get(ONE).text, "catalog")
    assert "rest: keeps all 17 promises, tried 2026-11-27T18:00:00" in text_of(html)
    assert 'class="late"' not in html
    made.catalog = Unreachable("table sluice_check.catalog_check: the catalog at https://c.test:1 is down")
    found = client.get(ONE)
    assert (found.status_code, "the catalog at … is down" in section(found.text, "catalog")) == (200, True)


def test_what_is_left_to_the_catalog_is_said_where_it_is_declared(made: Made, client: TestClient) -> None:
    assert "Left to the catalog" not in client.get(ONE).text
    managed = Lake(
        "s3://w", "s3://l", Catalog("rest", "https://c"), "catalog", "s3://d/d", bucket_lists=False
    )
    made.left_to_catalog = managed.left_to_catalog()
    said = text_of(section(client.get(ONE).text, "catalog"))
    assert "maintenance is skipped here" in said
    assert "Not seen, since the bucket is not listed by declaration: files that no table names" in said
