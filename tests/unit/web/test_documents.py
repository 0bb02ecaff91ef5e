"""The ledger as pages and JSON: documents of this run alone, of a stream that the user may read, as text."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from fastapi import FastAPI, HTTPException
from fastapi.testclient import TestClient

from sluice.ledger.documents import Ledger
from sluice.ledger.keys import run_key
from sluice.web import documents, navigation
from sluice.web.data.sources import sources
from sluice.web.rights import may_read_stream
from tests.support.steps import ledger

RUN = "manual__2026-01-01T00:00:00+00:00"


@pytest.fixture
def made() -> Ledger:
    return ledger("nyc_taxi")


@pytest.fixture
def client(made: Ledger) -> Iterator[TestClient]:
    def one(stream: str) -> str:
        if stream != "nyc_taxi":
            raise HTTPException(404, f"no stream {stream!r}")
        return stream

    app, root = FastAPI(redirect_slashes=False), FastAPI()
    app.include_router(documents.router)
    app.dependency_overrides[may_read_stream] = one
    data = SimpleNamespace(ledger=lambda stream: {"nyc_taxi": made}[stream])
    app.dependency_overrides[sources] = lambda: data
    root.mount("/sluice", app)
    with TestClient(root, raise_server_exceptions=False) as opened:
        yield opened


def page(document: str = "", run: str = RUN, stream: str = "nyc_taxi") -> str:
    return f"/{navigation.ledger_page(stream, run, document)}"


def test_a_document_by_the_address_of_a_link(made: Ledger, client: TestClient) -> None:
    made.put(run_key(RUN, "proof"), {"status": "passed", "gaps": 0, "ranges": {"0": [[0, 10]]}})
    answer = client.get(page("proof"))
    assert answer.status_code == 200
    assert f"s3://w/ledger/nyc_taxi/{run_key(RUN, 'proof')}" in answer.text
    assert "<td>passed" in answer.text
    assert "<script>" not in answer.text
    assert client.get(f"{page('proof')}.json").json() == {
        "status": "passed", "gaps": 0, "ranges": {"0": [[0, 10]]},
    }  # fmt: skip


def test_of_a_load_that_was_verified_again_the_newest_proof(made: Ledger, client: TestClient) -> None:
    made.put(run_key(RUN, "proof"), {"at": "2026-01-01T00:00:00+00:00", "number": "first"})
    made.put(run_key(RUN, "proof-7"), {"at": "2026-01-01T00:00:09+00:00", "number": "second"})
    assert client.get(f"{page('proof')}.json").json()["number"] == "second"
    assert 'href="proof-7.json"' in client.get(page("proof")).text
    assert client.get(f"{page('proof-7')}.json").json()["number"] == "second"


def test_of_a_backfill_the_newest_load_and_a_list_of_all(made: Ledger, client: TestClient) -> None:
    for number in (1, 2):
        made.put(run_key(f"{RUN}#00000{number}", "plan"), {"number": number})
    assert client.get(f"{page('plan')}.json").json() == {"number": 2}
    listed = client.get(page()).text
    for number in (1, 2):
        href = navigation.ledger_page("nyc_taxi", f"{RUN}#00000{number}", "plan")
        assert f'href="{href.replace("sluice", "../../..", 1)}"' in listed
        assert client.get(f"/{href}.json").json() == {"number": number}


def test_what_is_not_there_is_said_and_names_no_place(made: Ledger, client: TestClient) -> None:
    for address in (page("proof"), page(), f"{page('proof')}.json"):
        answer = client.get(address)
        assert answer.status_code == 404, address
        assert "s3://" not in answer.text
    assert "has not ended, failed" in client.get(page("proof")).text


@pytest.mark.parametrize("stream", ["wiki_changes", "other"])
def test_of_a_stream_that_may_not_be_read_nothing_is_asked(client: TestClient, stream: str) -> None:
    for address in (page("proof", stream=stream), page(stream=stream)):
        answer = client.get(address)
        assert (answer.status_code, answer.json()) == (404, {"detail": f"no stream {stream!r}"})


@pytest.mark.parametrize("name", ["..%2Fplan", "plan.json%2F", "x.y", "%2e%2e", "PLAN"])
def test_no_name_leads_out_of_the_run(made: Ledger, client: TestClient, name: str) -> None:
    made.put("runs/plan.json", {"secret": "of another"})
    made.put(run_key(RUN, "PLAN"), {"secret": "of another"})
    answer = client.get(f"{page()}/{name}")
    assert answer.status_code == 404
    assert "of another" not in answer.text


def test_a_hostile_value_is_text_and_a_long_one_is_shortened(made: Ledger, client: TestClient) -> None:
    hostile = "<script>alert(1)</script>"
    made.put(run_key(RUN, "plan"), {"name": hostile, "sources": [{"key": f"{n}.csv"} for n in range(5000)]})
    text = client.get(page("plan")).text
    assert hostile not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "0.csv" in text
    assert "4999.csv" not in text
    assert 'Shortened: <a href="plan.json">' in text
    assert len(client.get(f"{page('plan')}.json").json()["sources"]) == 5000
    hostile_run = client.get(page("plan", run="<script>alert(2)")).text
    assert "&lt;script&gt;alert(2)" in hostile_run
    assert "<script>alert" not in hostile_run


def test_of_many_the_page_has_the_first(
    made: Ledger, monkeypatch: pytest.MonkeyPatch, client: TestClient
) -> None:
    for number in range(5):
        made.put(run_key(RUN, f"findings-{number}"), {})
    monkeypatch.setattr(documents, "SHOWN_DOCUMENTS", 3)
    text = client.get(page()).text
    assert text.count("findings-") == 3 * 2
    assert "has more documents" in text
