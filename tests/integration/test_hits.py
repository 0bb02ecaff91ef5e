"""The ISP stream through Airflow: hits into the lake, counts into a database and topics, exact whatever dies.

The tests go on from each other: a load with everything killed on the way, then a sink that is tampered with,
then what an operator sees of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import psycopg2
import pytest
from playwright.sync_api import expect
from prometheus_client.parser import text_string_to_metric_families

from bench.queries_exact import LOAD, SPEC, Course
from local import evidence
from local.services import airflow as service
from local.stack import Stack, wait_until
from sluice.model import database
from tests.support import browser

# They come for two minutes: longer than the first kill, a new owner's first batch, and the second kill take.
HITS, RATE = 42_000, 350
RUN_SECONDS = 600
# The database and the broker are the ones that everything else on the machine has, too.
ROUNDS = (("consumer", "queries"), ("postgres", "kafka"))


@pytest.fixture(scope="module")
def course(stack: Stack) -> Iterator[Course]:
    made = Course(stack)
    made.begin()
    yield made
    for part in SPEC.parts.values():
        if made.process(part.program)["statename"] in ("STARTING", "RUNNING"):
            stack.supervisor().stopProcess(part.program)


@pytest.fixture(scope="module")
def run(course: Course) -> str:
    """One load, with everything killed on the way, that ended well."""
    run_id, state, killed = course.load(RUN_SECONDS, ROUNDS, hits=HITS, per_second=RATE, zipcodes=50)
    tasks = {task["task_id"]: task["state"] for task in course.stack.airflow().tasks(LOAD, run_id)}
    for task in (name for name, end in tasks.items() if end == "failed"):
        print(f"{task} failed:\n" + "\n".join(course.stack.airflow().log(LOAD, run_id, task))[-4000:])
    assert state == "success", tasks
    assert killed == [name for names in ROUNDS for name in names]
    return run_id


def test_counts_are_exact_though_everything_was_killed(course: Course, run: str) -> None:
    found = evidence.exactness(course.stack, SPEC)
    assert found.is_exact, found.sentence()
    assert found.records == HITS
    checked = course.stack.airflow().xcom(LOAD, run, "check_sinks")
    for name, query in SPEC.queries.items():
        if not query.measures:
            continue
        sinks = checked[name]["sinks"]
        assert set(sinks) == {sink.name for sink in query.sinks}
        for sink in sinks.values():
            assert sink["lake"] == sink["sink"] > 0
    assert checked["windows"]["late"] > 0, "some hits came too late, and are kept apart"


def test_the_files_hold_every_hit_once(course: Course, run: str) -> None:
    (sink,) = SPEC.queries["hits"].sinks
    rows = course.table().scan().count()

    def files() -> int:
        """How many rows the plain files hold, by their own footers."""
        from pyarrow import fs, parquet

        reader = course.stack.platform("reader")
        s3 = fs.S3FileSystem(
            access_key=reader.s3.access_key,
            secret_key=reader.s3.secret_key,
            endpoint_override=reader.s3.endpoint,
            region=reader.s3.region,
        )
        bucket = reader.lake.warehouse.removeprefix("s3://").split("/")[0]
        chosen = fs.FileSelector(f"{bucket}/{sink.prefix}", recursive=True)
        found = [file.path for file in s3.get_file_info(chosen) if file.path.endswith(".parquet")]
        return sum(parquet.read_metadata(path, filesystem=s3).num_rows for path in found)

    wait_until("all rows in files", lambda: files() == rows, 240, 2)


def test_a_sink_that_holds_something_else_is_named(course: Course, run: str) -> None:
    """And is well again, once it holds what it should."""
    api = course.stack.airflow()
    folder = {database.DIRECTORY_VARIABLE: str(course.stack.home.connections)}
    where = database.load("sluice_counts", folder)

    def tamper(by: int) -> Any:
        with psycopg2.connect(
            host=where.host, port=where.port, dbname=where.database, user=where.username,
            password=where.password,
        ) as connection, connection.cursor() as cursor:  # fmt: skip
            cursor.execute(
                "update isp_hits_audience set hits = hits + %s where zipcode = "
                "(select min(zipcode) from isp_hits_audience) returning zipcode",
                (by,),
            )
            return cursor.fetchone()

    (zipcode,) = tamper(1)
    api.clear(LOAD, run, ["check_sinks"], downstream=True)
    assert api.wait(LOAD, run, 180) == "failed"
    states = {task["task_id"]: task for task in api.tasks(LOAD, run)}
    assert (states["check_sinks"]["state"], states["audit"]["state"]) == ("failed", "upstream_failed")
    log = "\n".join(api.log(LOAD, run, "check_sinks", int(states["check_sinks"]["try_number"])))
    assert "jdbc isp_hits_audience: 1 of" in log
    assert f"different {zipcode}|" in log
    tamper(-1)
    api.clear(LOAD, run, ["check_sinks"], downstream=True)
    assert api.wait(LOAD, run, 180) == "success"


def test_an_operator_sees_the_queries(course: Course, run: str) -> None:
    root = service.url(course.stack.context)
    with browser.launch() as chromium:
        page = chromium.new_page(viewport=browser.DESKTOP)
        browser.log_in(page, root, service.USER, course.stack.secrets["airflow_operator"])
        page.goto(f"{root}/sluice/queries/{SPEC.name}")
        for name in SPEC.queries:
            expect(page.get_by_text(f"{SPEC.name}.{name}").first).to_be_visible(timeout=60_000)
        browser.screenshot(page, "isp-hits-queries")
    login = {"username": service.USER, "password": course.stack.secrets["airflow_operator"]}
    token = httpx.post(f"{root}/auth/token", json=login, timeout=30, trust_env=False).json()["access_token"]
    bearer = {"Authorization": f"Bearer {token}"}
    text = httpx.get(f"{root}/sluice/metrics", headers=bearer, timeout=30, trust_env=False)
    assert text.status_code == 200
    counted = {
        sample.labels["query"]: sample.value
        for family in text_string_to_metric_families(text.text)
        for sample in family.samples
        if sample.name == "sluice_query_input_rows_total" and sample.labels["stream"] == SPEC.name
    }
    assert {f"{SPEC.name}.{name}" for name in SPEC.queries} <= set(counted)
    assert httpx.get(f"{root}/sluice/metrics", timeout=30, trust_env=False).status_code == 401
