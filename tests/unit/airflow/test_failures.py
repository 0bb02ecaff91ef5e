"""How failures read."""

from __future__ import annotations

import re

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from botocore.exceptions import IncompleteReadError

from sluice.airflow.failures import failed, failed_attempt, final_failures
from sluice.clients.catalogs.errors import LoginRefused as CatalogLogin
from sluice.clients.kafka.errors import LoginRefused as KafkaLogin
from sluice.clients.s3.errors import S3LoginRefused
from sluice.config.reading.references import SecretNotFound
from sluice.config.reading.toml import ConfigError
from sluice.core.csv.header import InvalidHeader
from sluice.core.error_codes import LOGINS, PERMANENT, ErrorCode, code_in
from sluice.core.error_guide.systems import ERRORS
from sluice.core.errors import ClientError, Missing, Refused, Unreachable
from sluice.core.messages import failure_reason
from sluice.core.registry.errors import RegistryLogin
from spark_jobs.common.lake.tables import IncompatibleSchema
from spark_jobs.common.maintenance.row_diff import RowsDiffer
from spark_jobs.common.maintenance.staged_files import CommitConflict
from spark_jobs.common.producer.source_object import CorruptObject
from spark_jobs.common.spark.failures import failure_line

REASONS = {
    "python": (["Traceback", "  File x", "LookupError: no topic", "bye"], "LookupError: no topic"),
    "dotted": (["spark_jobs.common.producer.source_object.CorruptObject: s3://b/k: broke off"], None),
    "coded": (
        ["LookupError: no topic", "E process: SLU-402 VerificationFailed: a gap", "bye"],
        "SLU-402 VerificationFailed: a gap",
    ),
    "java": (["Caused by: org.apache.kafka.common.errors.TimeoutException: late"], None),
    "no exception": (["one", "two", ""], "two"),
    "nothing": ([], "its log is empty"),
}


def _is_permanent(reason: str) -> bool:
    return code_in(reason) in PERMANENT


@pytest.mark.parametrize("case", REASONS.values(), ids=REASONS.keys())
def test_last_reason(case: tuple[list[str], str | None]) -> None:
    lines, expected = case
    assert failure_reason(lines) == (expected or lines[0].removeprefix("Caused by: "))


def test_only_a_source_that_stays_unreadable_is_permanent() -> None:
    for error in (CorruptObject("broke off"), InvalidHeader("no column 'x'"), RowsDiffer("3 rows"),
                  ConfigError("key"), IncompatibleSchema("column 'x'")):  # fmt: skip
        assert _is_permanent(failure_reason([f"2026-11-20 ERROR x: {failure_line(error)}"]))
    for other in (CommitConflict("moved"), IncompleteReadError(actual_bytes=3, expected_bytes=9)):
        assert not _is_permanent(failure_reason([failure_line(other)]))
    # As Spark passes on the traceback of a worker.
    worker = "an exception\nTraceback (most recent call last):\n  File x\n{}\n"
    corrupt = "spark_jobs.common.producer.source_object.CorruptObject: s3://b/k: broke off"
    passed_on = failure_line(RuntimeError(worker.format(corrupt)))
    assert passed_on == "SLU-302 CorruptObject: s3://b/k: broke off"
    assert _is_permanent(failure_reason([passed_on]))
    assert not _is_permanent(
        failure_line(RuntimeError(worker.format("botocore.exceptions.ReadTimeoutError: x")))
    )
    # By the code alone.
    assert _is_permanent("SLU-302 whatever it says")
    assert not _is_permanent("spark_jobs.common.producer.source_object.CorruptObject: s3://b/k: broke off")


@pytest.mark.parametrize("kind", [Missing, Refused, ConfigError])
def test_what_a_retry_cannot_fix_is_final_with_the_same_words(kind: type[Exception]) -> None:
    with pytest.raises(AirflowFailException) as caught, final_failures():
        raise kind("reason")
    assert str(caught.value) == f"{kind.code} reason"  # type: ignore[attr-defined]


def test_what_may_pass_is_left_to_the_retries() -> None:
    with pytest.raises(Unreachable) as caught, final_failures(), final_failures():
        raise Unreachable("reason", ErrorCode.KAFKA_UNREACHABLE)
    assert str(caught.value) == "SLU-201 reason"
    assert caught.value.code is ErrorCode.KAFKA_UNREACHABLE


def test_a_failures_text_begins_with_its_code_once() -> None:
    for fail, kind in ((failed, AirflowFailException), (failed_attempt, AirflowException)):
        error = fail(ErrorCode.SUSPENDED, "the consumer is suspended")
        assert (type(error), str(error)) == (kind, "SLU-503 the consumer is suspended")
        assert str(fail(ErrorCode.SUSPENDED, error)) == str(error)


@pytest.mark.parametrize(
    "error",
    [
        SecretNotFound("airflow.toml s3 secret_key: file /s is empty. Fix: put the value there"),
        KafkaLogin("reason"),
        S3LoginRefused("reason"),
        CatalogLogin("reason"),
        Refused("reason", ErrorCode.DATABASE_LOGIN),
        RegistryLogin("reason"),
    ],
    ids=lambda error: str(error.code),
)
def test_a_login_that_is_refused_is_tried_again(error: ClientError | ConfigError) -> None:
    """Its secret or token may be written some seconds late, or who checks it have no answer for a moment."""
    with pytest.raises(AirflowException) as caught, final_failures(), final_failures():
        raise error
    assert not isinstance(caught.value, AirflowFailException)
    assert str(caught.value) == f"{error.code} {error}"


def test_each_code_of_a_login_says_that_it_is_retried() -> None:
    assert all(re.search("Retried|Tried again", ERRORS[code].cause) for code in LOGINS)
