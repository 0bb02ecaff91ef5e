"""The routes, in one process: who is let in, what they say, and what they say when they cannot."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi import HTTPException
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from markupsafe import escape
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.parser import text_string_to_metric_families

from sluice.config.reading.toml import ConfigError
from sluice.config.sections.page import Kind, Page, Words
from sluice.config.streams import Declared
from sluice.core.errors import Missing, Refused, Unreachable
from sluice.web import static_files as assets
from sluice.web.app import create, may_read
from sluice.web.rights import reader
from tests.support.observed import RUN
from tests.support.pages import (
    QUERY,
    STREAM,
    TOKEN,
    Made,
    SomeReader,
    make_app,
    make_results,
    of_zipcodes,
    spec,
    with_page,
)

PAGE, DATA = f"/results/{STREAM}.{QUERY}", f"/api/results/{STREAM}.{QUERY}"
QUERIES, PROGRESS, METRICS = f"/queries/{STREAM}", f"/api/queries/{STREAM}", "/metrics"
LOG = "/log/consumer"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def made() -> Made:
    return make_app(make_results(time.time(), users=20))


@pytest.fixture
def client(made: Made) -> Iterator[TestClient]:
    with TestClient(made.app, raise_server_exceptions=False) as opened:
        yield opened


def paths_of(made: Made) -> list[str]:
    routes = [route for route in made.app.routes if isinstance(route, APIRoute)]
    paths = [route.path.replace("{stream}.{name}", f"{STREAM}.{QUERY}") for route in routes]
    paths = [path.replace("{stream}", STREAM).replace("{name}", "results.js") for path in paths]
    paths = [path.replace("{component}", "consumer") for path in paths]
    return [path.replace("{run_id}", quote(RUN)).replace("{document}", "proof") for path in paths]


# Who is let in: tests/browser/test_login.py asks a real Airflow for every route.


def test_for_who_is_not_let_in_nothing_is_read(made: Made, client: TestClient) -> None:
    def refuse() -> None:
        raise HTTPException(401, "no")

    made.app.dependency_overrides[may_read] = refuse
    answers = [client.get(path, headers=BEARER) for path in paths_of(made) if path != METRICS]
    assert [(answer.status_code, answer.json()) for answer in answers] == [(401, {"detail": "no"})] * 12
    assert (made.results.reads, made.progress.reads) == (0, 0)


# What they say.


def test_every_route_answers(made: Made, client: TestClient) -> None:
    assert [client.get(path, headers=BEARER).status_code for path in paths_of(made)] == [200] * 13


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer é"]
)
def test_the_metrics_are_for_who_has_the_token(made: Made, client: TestClient, given: str) -> None:
    headers = [(b"Authorization", given.encode())] if given else []
    answer = client.get(METRICS, headers=headers)
    assert (answer.status_code, answer.json()) == (401, {"detail": "Not authenticated"})
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert made.progress.reads == 0
    # Without a token in the platform file no client gets them.
    made.token = None
    assert client.get(METRICS, headers=BEARER).status_code == 401


@pytest.mark.parametrize("page", [PAGE, QUERIES])
def test_the_page_has_no_script_and_no_style_of_its_own(client: TestClient, page: str) -> None:
    answer = client.get(page)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-store"
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", answer.text, re.S)
    assert len(scripts) == 2
    assert all("src=" in attributes and not body for attributes, body in scripts)
    assert not re.findall(r"<style|\sstyle=|\son\w+=|javascript:", answer.text)
    # Relative: the page is right behind any base URL.
    assert not re.findall(
        r"""(?:src|href|data-plotly)=["'](?!\.\./(?:static|queries|results)/)""", answer.text
    )


def test_what_the_stream_declares_is_text_in_the_page(made: Made, client: TestClient) -> None:
    text = "'\"><script>alert(1)</script>"
    words = Words(text, text)
    made.declared = Declared([with_page(Page(text, "user", words, text, text, Kind("bot", words, words)))])
    found = client.get(PAGE).text
    assert "<script>alert" not in found
    assert f"<h1>{escape(text)}</h1>" in found
    (given,) = re.findall("data-words='([^']*)'", found)
    kinds = [{"one": text, "many": text}] * 2
    assert json.loads(given) == {"counted": text, "names": text, "kinds": kinds}


def test_a_page_without_kinds_has_nothing_to_choose(made: Made, client: TestClient) -> None:
    assert re.findall(r'name="whose" value="(\w+)"', client.get(PAGE).text) == ["all", "people", "bots"]
    made.declared = Declared([with_page(of_zipcodes())])
    made.results.results = make_results(time.time(), has_kinds=False)
    found = client.get(PAGE).text.replace(QUERY, "zipcodes")
    assert re.findall(r'<th scope="col"[^>]*>(.*)</th>', found.replace("</th>", "</th>\n")) == [
        *("#", "Zipcode", "Hits")
    ]
    assert "Hits per zipcode in windows of 10 minutes" in found
    assert "The ten top zipcodes of the window" in found
    assert not re.search(r"whose|editor|\buser|\bbots?\b|people", found, re.I)
    assert [len(window["values"]) for window in client.get(DATA).json()["windows"]] == [1] * 144
    assert client.get(f"{DATA}?whose=bots").status_code == 422


def test_the_policy_lets_nothing_in_from_elsewhere(made: Made, client: TestClient) -> None:
    for path in paths_of(made):
        headers = client.get(path).headers
        policy = dict(component.split(" ", 1) for component in headers["Content-Security-Policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["connect-src"] == policy["frame-ancestors"] == "'self'"
        assert not re.findall(r"unsafe|http|\*", headers["Content-Security-Policy"])
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert re.fullmatch(r"app;dur=\d+\.\d", headers["Server-Timing"])


def test_the_data(made: Made, client: TestClient) -> None:
    found = client.get(DATA).json()
    assert found["late"] == 1_437
    assert found["early"] == 12
    assert len(found["windows"]) == 144
    assert len(found["window"]["top"]) == 10
    assert found["now"] == pytest.approx(time.time(), abs=60)
    assert [component["health"] for component in found["status"]["components"]] == [
        "healthy",
        "idle",
        "idle",
    ]
    assert found["status"]["supervision"]["current"] is True


def test_a_window_and_whose(made: Made, client: TestClient) -> None:
    start = made.results.results.windows[3].start
    window = client.get(DATA, params={"window": start, "whose": "bots"}).json()["window"]
    assert window["start"] == start
    assert {row["kind"] for row in window["top"]} == {True}
    # As JavaScript writes the same number.
    assert client.get(DATA, params={"window": int(start)}).json()["window"]["start"] == start
    assert made.results.reads == 1


@pytest.mark.parametrize("query", ["window=soon", "whose=mine", "whose="])
def test_what_no_one_can_ask_for(made: Made, client: TestClient, query: str) -> None:
    assert client.get(f"{DATA}?{query}").status_code == 422
    assert made.results.reads == 0


def test_a_number_that_is_none_finds_no_window(client: TestClient) -> None:
    for number in ("nan", "inf", "-1e308"):
        assert client.get(f"{DATA}?window={number}").json()["window"] is None


def test_a_query_without_a_page(made: Made) -> None:
    app = create(lambda: Declared([replace(spec(), name="other", queries={}), spec()]))
    app.dependency_overrides = made.app.dependency_overrides
    client = TestClient(app)
    for name in (f"other.{QUERY}", f"{STREAM}.unknown", f"unknown.{QUERY}", "..%2f..%2fsecret", STREAM):
        assert client.get(f"/results/{name}").status_code == 404
        assert client.get(f"/api/results/{name}").status_code == 404


def test_a_stream_that_is_unknown_is_404_and_one_whose_declaration_cannot_be_read_503(
    made: Made, client: TestClient
) -> None:
    reason = "rides/stream.toml: unknown key 'tabel'"
    made.declared = Declared([spec()], {"rides": reason})
    of_stream = {path for path in paths_of(made) if STREAM in path and "/runs/" not in path}
    assert of_stream == {PAGE, DATA, QUERIES, PROGRESS, *(f"/streams/{STREAM}{of}" for of in ("", LOG))}
    for path in sorted(of_stream):
        for stream, status, detail in (("rides", 503, reason), ("unknown", 404, "no stream 'unknown'")):
            answer = client.get(path.replace(STREAM, stream))
            assert (answer.status_code, answer.json()) == (status, {"detail": detail}), path
    assert (made.results.reads, made.progress.reads) == (0, 0)


# Queries.


def test_the_data_of_the_queries(made: Made, client: TestClient) -> None:
    found = client.get(PROGRESS).json()
    assert [query["query"] for query in found["queries"]][:2] == [STREAM, "windows"]
    assert [query["life"]["state"] for query in found["queries"]] == [
        *("running", "running", "idle", "silent", "ended", "running")
    ]
    assert found["now"] - found["since"] == 3 * 3600
    assert found["complete"] is True
    windows = found["queries"][1]
    assert 175 <= len(windows["slots"]) <= 181
    assert windows["newest"]["totals"]["batches"] == 540
    assert windows["newest"]["ended"] > windows["newest"]["at"]
    assert found["queries"][5]["newest"] is None
    # Once for the page and the metrics, and for all who look.
    client.get(METRICS, headers=BEARER)
    assert made.progress.reads == 1


def test_the_page_of_the_queries_leads_to_those_of_other_streams(made: Made) -> None:
    other = replace(spec(), name="other", queries={})
    app = create(lambda: Declared([other, spec()]))
    app.dependency_overrides = made.app.dependency_overrides
    client = TestClient(app)
    text = client.get("/queries/other").text
    assert '<a href="../queries/other" aria-current="page">other</a>' in text
    assert f'<a href="../queries/{STREAM}">{STREAM}</a>' in text
    assert "../results/" not in text
    assert f'href="../results/{STREAM}.{QUERY}">Wikipedia: top editors</a>' in client.get(QUERIES).text
    assert f'href="../queries/{STREAM}"' in client.get(PAGE).text
    for stream in ("unknown", "..%2f..%2fsecret"):
        assert client.get(f"/queries/{stream}").status_code == 404
        assert client.get(f"/api/queries/{stream}").status_code == 404


def test_the_queries_of_the_navigation_are_those_of_the_first_stream_that_may_be_read(made: Made) -> None:
    app = create(lambda: Declared([replace(spec(), name=name) for name in ("a", "b", "c")]))
    app.dependency_overrides = made.app.dependency_overrides
    client = TestClient(app, follow_redirects=False)
    found = []
    for allowed in ("abc", "bc", "c", ""):
        app.dependency_overrides[reader] = lambda allowed=allowed: SomeReader(*allowed)
        answer = client.get("/queries")
        found.append((answer.status_code, answer.headers.get("Location")))
    assert found == [(307, "queries/a"), (307, "queries/b"), (307, "queries/c"), (404, None)]


def test_the_metrics(made: Made, client: TestClient) -> None:
    answer = client.get(METRICS, headers=BEARER)
    assert answer.headers["Content-Type"] == CONTENT_TYPE_LATEST
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert found["sluice_query_batches_total", STREAM, "windows"] == 540
    assert found["sluice_query_up", STREAM, "windows"] == 1
    assert time.time() - found["sluice_query_last_activity_timestamp_seconds", "down", STREAM] > 1400
    assert found["sluice_query_progress_scrape_success", STREAM] == 1


def test_metrics_say_that_progress_is_not_readable(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    app = create(lambda: Declared([replace(spec(), name="other", queries={}), spec()]))
    app.dependency_overrides = made.app.dependency_overrides
    assert (
        'sluice_query_progress_scrape_success{stream="other"} 1.0'
        in TestClient(app).get(METRICS, headers=BEARER).text
    )
    made.forget()
    made.progress.error = Unreachable("Kafka is away")
    text = TestClient(app).get(METRICS, headers=BEARER).text
    assert 'sluice_query_progress_scrape_success{stream="other"} 0.0' in text
    assert f'sluice_query_progress_scrape_success{{stream="{STREAM}"}} 0.0' in text
    assert "Kafka is away" in caplog.text, "an operator learns why"


@pytest.mark.parametrize("path", [PROGRESS, METRICS])
def test_queries_that_cannot_be_read(made: Made, client: TestClient, path: str) -> None:
    made.progress.error = ConfigError("SLUICE_PLATFORM_DIR is not set")
    answer = client.get(path, headers=BEARER)
    assert (answer.status_code, answer.json()["detail"]) == (503, "SLUICE_PLATFORM_DIR is not set")
    made.progress.error = Unreachable("Kafka is away")
    assert client.get(PROGRESS).json() == {"detail": "Kafka is away", "kind": "error"}
    # The page itself reads nothing, so it is there to say so.
    assert client.get(QUERIES).status_code == 200


# What they say when they cannot.


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (Missing("table results.editors does not exist"), 404, "missing"),
        (Unreachable("the catalog does not answer"), 503, "error"),
        (Refused("S3 denies it"), 503, "error"),
        (ConfigError("SLUICE_PLATFORM_DIR is not set"), 503, "error"),
    ],
)
def test_the_reason_is_given(
    made: Made, client: TestClient, error: Exception, status: int, kind: str
) -> None:
    made.results.error = error
    answer = client.get(DATA)
    assert (answer.status_code, answer.json()) == (status, {"detail": str(error), "kind": kind})
    # The page itself reads nothing, so it is there to say so.
    assert client.get(PAGE).status_code == 200
    made.results.error = None
    assert client.get(DATA).status_code == 200


def test_an_unexpected_error_tells_nothing(made: Made, client: TestClient) -> None:
    made.results.error = ZeroDivisionError("with a secret in it")
    answer = client.get(DATA)
    assert answer.status_code == 500
    assert "secret" not in answer.text


# Static files.


def test_the_files_are_those_of_the_page(client: TestClient) -> None:
    page = client.get(PAGE).text + client.get(QUERIES).text + client.get(f"/streams/{STREAM}").text
    wanted = set(re.findall(r"\.\./static/([\w.\-]+)", page))
    for name in [name for name in assets.files() if name.endswith(".js") and name != assets.PLOTLY]:
        wanted |= set(re.findall(r'from "\./([\w.]+)"', client.get(f"/static/{name}").text))
    assert wanted == set(assets.files())


def test_the_type_and_how_long_a_browser_may_keep_a_file(client: TestClient) -> None:
    for name, path in assets.files().items():
        answer = client.get(f"/static/{name}")
        assert answer.content == path.read_bytes()
        assert answer.headers["Content-Type"].split(";")[0] == assets.TYPES[path.suffix]
        assert answer.headers["Cache-Control"] == "private, no-cache"
    versioned = client.get(f"/static/{assets.PLOTLY}?v={assets.plotly_version()}")
    assert versioned.headers["Cache-Control"] == "private, max-age=31536000, immutable"
    assert f"{assets.PLOTLY}?v={assets.plotly_version()}" in client.get(PAGE).text


@pytest.mark.parametrize(
    "name",
    [
        "app.py",
        "..%2fapp.py",
        "%2e%2e/app.py",
        "results.html",
        "",
        "results.js%00",
        "results.js/",
        "__init__.py",
    ],
)
def test_no_other_file_is_to_be_had(client: TestClient, name: str) -> None:
    answer = client.get(f"/static/{name}")
    assert answer.status_code == 404


def test_a_file_that_was_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: tmp_path / name for name in ("there.js", "gone.js")}
    known["there.js"].touch()
    monkeypatch.setattr(assets, "files", lambda: known)
    assert assets.find("there.js") == (known["there.js"], "text/javascript")
    with pytest.raises(Missing, match=r"gone\.js"):
        assets.find("gone.js")
