"""The client of Airflow's API on a busy machine: what is safe to repeat is repeated."""

from __future__ import annotations

import time
from collections import Counter

import httpx
import pytest

from sluice.cli.airflow_api import TRIES, Airflow
from sluice.cli.base import UnhealthyService
from tests.support.raising import raising

RUN = "/api/v2/dags/d/dagRuns/r"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    return Counter()


def client(asked: Counter[str], slow: int) -> Airflow:
    """Connect to an Airflow that answers from the ``slow`` + 1st request on; each kind of request counts in
    ``asked``."""

    def answer(request: httpx.Request) -> httpx.Response:
        asked[f"{request.method} {request.url.path}"] += 1
        if request.url.path != "/auth/token" and asked[f"{request.method} {request.url.path}"] <= slow:
            raise httpx.ReadTimeout("timed out", request=request)
        return httpx.Response(200, json={"access_token": "t", "state": "success"})

    airflow = Airflow("http://airflow", "u", "p")
    airflow._client = httpx.Client(base_url="http://airflow", transport=httpx.MockTransport(answer))
    return airflow


def test_a_question_without_an_answer_is_asked_again(asked: Counter[str]) -> None:
    assert client(asked, slow=3).wait("d", "r") == "success"
    assert asked[f"GET {RUN}"] == 4


def test_airflow_that_never_answers_is_named(asked: Counter[str]) -> None:
    with raising(UnhealthyService, f"GET {RUN}: no answer"):
        client(asked, slow=99).run("d", "r")
    assert asked[f"GET {RUN}"] == TRIES


def test_a_run_is_not_started_twice(asked: Counter[str]) -> None:
    with raising(UnhealthyService, "POST /api/v2/dags/d/dagRuns: no answer"):
        client(asked, slow=1).trigger("d")
    assert asked["POST /api/v2/dags/d/dagRuns"] == 1
