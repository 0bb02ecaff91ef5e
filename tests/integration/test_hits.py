"""The ISP stream through Airflow: hits in the lake, counts in a database and topics, exact whatever dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import httpx
import psycopg2
import pytest
from playwright.sync_api import expect
from prometheus_client.parser import text_string_to_metric_families
from pyarrow import fs, parquet

from local.services import airflow as service
from local.stack.stack import Stack, wait_until
from sluice.config import connection as database
from tests.integration import feeds, streams
from tests.integration.hits import LOAD, STREAM, Course
from tests.support import airflow_calls, browser, topic_offsets
from tests.support.scenario import step

SPEC = streams.load("isp_hits")
# Several of the consumer's batches, as overrides.toml bounds them, so that the kill comes amid them.
HITS, RATE = 14_000, 400
RUN_SECONDS = 1200
TASKS_SECONDS = 400
# As soon as something is counted. The queries live to see that the database and the broker are away, which
# everything else on the machine uses, too.
KILLED = ("consumer", "postgres", "kafka", "queries")


@pytest.fixture
def course(stack: Stack) -> Iterator[Course]:
    made = Course(stack, SPEC)
    with feeds.running(made, (LOAD, STREAM)):
        yield made


@pytest.mark.parametrize("is_changed", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_counts_are_exact_whatever_dies_and_a_wrong_one_is_named(course: Course, is_changed: bool) -> None:
    with step("a load ends well although consumer, queries, database and broker are killed"):
        run = load(course)
    with step("every hit is in the lake once, and every sink has the lake's counts"):
        check_counts(course, run)
    with step("the files hold every row once"):
        check_files(course)
    if is_changed:
        with step("a sink with another count is named, and passes again once that is corrected"):
            check_a_changed_sink_is_named(course, run)
    with step("an operator sees each query and its metrics"):
        check_the_page(course)


def load(course: Course) -> str:
    """One load with everything killed on the way; its run's id."""
    run, state, killed = course.load(RUN_SECONDS, [KILLED], rows=HITS, per_second=RATE, zipcodes=50)
    feeds.assert_success(course, LOAD, run, state)
    assert killed == list(KILLED)
    return run


def check_counts(course: Course, run: str) -> None:
    found = topic_offsets.compare_with_topic(course.stack, SPEC)
    assert found.is_ok, found.message()
    assert found.records == HITS
    checked = course.airflow.returned(LOAD, run, "compare_sinks")
    for name, query in SPEC.queries.items():
        if not query.aggregates:
            continue
        sinks = checked[name]["sinks"]
        assert set(sinks) == {sink.name for sink in query.sinks}
        for sink in sinks.values():
            assert sink["lake"] == sink["sink"] > 0


def check_files(course: Course) -> None:
    """By the files' own footers."""
    (sink,) = SPEC.queries["hits"].sinks
    reader = course.stack.platform("reader")
    s3 = fs.S3FileSystem(
        access_key=reader.s3.access_key,
        secret_key=reader.s3.secret_key,
        endpoint_override=reader.s3.endpoint,
        region=reader.s3.region,
    )
    bucket = reader.lake.warehouse.removeprefix("s3://").split("/")[0]
    chosen = fs.FileSelector(f"{bucket}/{sink.prefix}", recursive=True)
    rows = course.table().scan().count()

    def in_files() -> int:
        found = [file.path for file in s3.get_file_info(chosen) if file.path.endswith(".parquet")]
        return sum(parquet.read_metadata(path, filesystem=s3).num_rows for path in found)

    wait_until("all rows in files", lambda: in_files() == rows, TASKS_SECONDS)


def check_a_changed_sink_is_named(course: Course, run: str) -> None:
    api = course.airflow
    zipcode = change_a_count(course, 1)
    airflow_calls.clear(api, LOAD, run, ["compare_sinks"], downstream=True)
    assert api.wait(LOAD, run, TASKS_SECONDS) == "failed"
    tasks = {task["task_id"]: task for task in api.tasks(LOAD, run)}
    assert (tasks["compare_sinks"]["state"], tasks["audit"]["state"]) == ("failed", "upstream_failed")
    log = "\n".join(api.log(LOAD, run, "compare_sinks", int(tasks["compare_sinks"]["try_number"])))
    assert "jdbc isp_hits_audience: 1 of" in log
    assert f"different {zipcode}|" in log
    assert change_a_count(course, -1) == zipcode
    airflow_calls.clear(api, LOAD, run, ["compare_sinks"], downstream=True)
    feeds.assert_success(course, LOAD, run, api.wait(LOAD, run, TASKS_SECONDS))


def change_a_count(course: Course, by: int) -> str:
    """In the database, past the stream; gives the zipcode."""
    where = database.load("sluice_results", {database.DIRECTORY_VARIABLE: str(course.stack.home.connections)})
    connection = psycopg2.connect(
        host=where.host, port=where.port, dbname=where.database, user=where.username, password=where.password
    )
    with closing(connection), connection, connection.cursor() as cursor:
        cursor.execute(
            # Around midnight a zipcode has rows of two days.
            "update isp_hits_audience set hits = hits + %s where (zipcode, window_start) = (select zipcode, "
            "window_start from isp_hits_audience order by zipcode, window_start limit 1) returning zipcode",
            (by,),
        )
        ((zipcode,),) = cursor.fetchall()
        return str(zipcode)


def check_the_page(course: Course) -> None:
    """Check the page of real queries; tests/browser checks its login, and the rest over made-up ones."""
    root = service.url(course.stack.context)
    login = {"username": service.USER, "password": course.stack.secrets["airflow_operator"]}
    names = {f"{SPEC.name}.{name}" for name in SPEC.queries}
    with browser.launch() as chromium:
        page = chromium.new_page(viewport=browser.DESKTOP)
        browser.log_in(page, root, login["username"], login["password"])
        page.goto(f"{root}/sluice/queries/{SPEC.name}")
        for name in names:
            expect(page.get_by_text(name).first).to_be_visible(timeout=60_000)
        browser.screenshot(page, "isp-hits-queries")
    with httpx.Client(base_url=root, timeout=30, trust_env=False) as client:
        token = course.stack.secrets["metrics"]
        metrics = client.get("/sluice/metrics", headers={"Authorization": f"Bearer {token}"})
    assert metrics.status_code == 200
    counted = {
        sample.labels["query"]: sample.value
        for family in text_string_to_metric_families(metrics.text)
        for sample in family.samples
        if sample.name == "sluice_query_input_rows_total" and sample.labels["stream"] == SPEC.name
    }
    assert names <= set(counted)
    # The watch of the API server sees the stream's processes too.
    labels = f'{{component="queries",stream="{SPEC.name}"}}'
    assert f"sluice_component_last_observed_timestamp_seconds{labels}" in metrics.text
