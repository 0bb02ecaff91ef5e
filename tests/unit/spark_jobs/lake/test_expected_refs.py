"""A commit whose outcome is unknown is asked for again, and one that is refused is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    TooManyRequestsError,
)
from requests import HTTPError, Response

from sluice.clients.catalogs import commits
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import ClientError, Refused, Unreachable
from spark_jobs.common.lake import expected_refs
from tests.support.raising import raising


class Catalog:
    """Answers one thing after the other, the last one without end; None: committed."""

    def __init__(self, *answers: Exception | None) -> None:
        self._answers, self.asked = list(answers), 0

    def commit_table(self, *_: Any) -> None:
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is not None:
            raise answer


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that were waited."""
    found: list[float] = []
    monkeypatch.setattr(expected_refs, "sleep", found.append)
    return found


def commit(catalog: Catalog) -> None:
    expected_refs._made(catalog, "raw.t", commits.expected_refs({"main": 1}), [])  # type: ignore[arg-type]


def asked_to_wait(seconds: str) -> TooManyRequestsError:
    response = Response()
    response.headers["Retry-After"] = seconds
    error = TooManyRequestsError("slowly")
    error.__cause__ = HTTPError(response=response)
    return error


def test_it_is_asked_for_until_the_outcome_is_known(waits: list[float]) -> None:
    unknown = CommitStateUnknownException("lost")
    catalog = Catalog(unknown, unknown, None)
    commit(catalog)
    assert (catalog.asked, len(waits)) == (3, 2)
    assert 0 < waits[0] <= waits[1]
    # As refused by what it has committed itself.
    catalog = Catalog(unknown, CommitFailedException("moved"))
    with raising(CommitFailedException, "moved"):
        commit(catalog)
    assert catalog.asked == 2


@pytest.mark.parametrize(("said", "waited"), [("7", 7.0), ("3600", expected_refs.MAX_RETRY_AFTER)])
def test_the_server_says_how_long_to_wait(waits: list[float], said: str, waited: float) -> None:
    commit(Catalog(asked_to_wait(said), None))
    assert waits == [waited]


def test_a_date_to_wait_until_is_no_number_of_seconds(waits: list[float]) -> None:
    commit(Catalog(asked_to_wait("Wed, 21 Oct 2026 07:28:00 GMT"), None))
    assert len(waits) == 1


@pytest.mark.parametrize("refusal", [CommitFailedException("moved"), BadRequestError("old number")])
def test_a_refusal_is_final(waits: list[float], refusal: Exception) -> None:
    catalog = Catalog(refusal)
    with raising(type(refusal), str(refusal)):
        commit(catalog)
    assert (catalog.asked, waits) == (1, [])


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (CommitStateUnknownException("lost"), Unreachable, ErrorCode.CATALOG_UNREACHABLE),
        (ForbiddenError("no right"), Refused, ErrorCode.CATALOG_PERMISSION),
    ],
)
def test_what_lasts_is_named_with_its_table(
    waits: list[float],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    kind: type[ClientError],
    code: ErrorCode,
) -> None:
    monkeypatch.setattr(expected_refs, "AGAIN_SECONDS", 0)
    catalog = Catalog(error)
    with raising(kind, "table raw.t", str(error)) as caught:
        commit(catalog)
    assert caught.value.code is code
    assert catalog.asked == 1 + len(waits) == (2 if kind is Unreachable else 1)


@pytest.mark.parametrize("has_moved", [True, False])
def test_a_bad_request_is_a_race_if_the_table_has_moved(
    monkeypatch: pytest.MonkeyPatch, has_moved: bool
) -> None:
    """A sequence number that was the next one when the snapshot was staged."""

    def at(place: str) -> SimpleNamespace:
        return SimpleNamespace(
            metadataFileLocation=lambda: place,
            changes=list,
            currentSchemaId=lambda: 0,
            lastColumnId=lambda: 1,
        )

    jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(iceberg=ICEBERG)))
    spark: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda *_: "rest"), _jvm=jvm)
    monkeypatch.setattr(expected_refs, "_catalog_of", lambda _: Catalog(BadRequestError("old number")))
    operations = SimpleNamespace(refresh=lambda: at("b" if has_moved else "a"))
    kind = expected_refs.CommitRefused if has_moved else BadRequestError
    with raising(kind, "old number"):
        expected_refs.commit(spark, "raw.t", operations, at("a"), at(""), {})


ICEBERG = SimpleNamespace(UpdateRequirements=SimpleNamespace(forUpdateTable=lambda *_: []))
