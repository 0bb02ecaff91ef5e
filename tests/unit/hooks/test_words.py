"""How failures and tables read."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from sluice.clients.errors import Missing, Refused, Unreachable
from sluice.hooks.failures import failure_reason, final_failures, is_permanent, table
from sluice.model.spec.config import ConfigError

REASONS = {
    "python": (["Traceback", "  File x", "LookupError: no topic", "bye"], "LookupError: no topic"),
    "dotted": (["spark_jobs.common.producer.objects.CorruptObject: s3://b/k: broke off"], None),
    "java": (["Caused by: org.apache.kafka.common.errors.TimeoutException: late"], None),
    "no exception": (["one", "two", ""], "two"),
    "nothing": ([], "it wrote nothing"),
}


@pytest.mark.parametrize("case", REASONS.values(), ids=REASONS.keys())
def test_last_reason(case: tuple[list[str], str | None]) -> None:
    lines, expected = case
    assert failure_reason(lines) == (expected or lines[0].removeprefix("Caused by: "))


def test_only_a_source_that_stays_unreadable_is_hopeless() -> None:
    assert is_permanent("spark_jobs.common.producer.objects.CorruptObject: s3://b/k: broke off")
    assert is_permanent("spark_jobs.common.producer.csv.InvalidHeader: s3://b/k: the header lacks column 'x'")
    assert is_permanent("spark_jobs.common.maintenance.row_diff.RowsDiffer: 3 rows of 2026-11-19 differ")
    assert not is_permanent("botocore.exceptions.IncompleteReadError: 3 read, but total bytes expected is 9")


@pytest.mark.parametrize("kind", [Missing, Refused, ConfigError])
def test_what_a_retry_cannot_mend_is_final_with_the_same_words(kind: type[Exception]) -> None:
    with pytest.raises(AirflowFailException) as caught, final_failures():
        raise kind("reason")
    assert str(caught.value) == "reason"


def test_what_may_pass_is_left_to_the_retries() -> None:
    with pytest.raises(Unreachable), final_failures():
        raise Unreachable("reason")


def test_columns_align_and_numbers_stand_right() -> None:
    assert (
        table(["a", "n"], [["x", 1000], ["long", 2]])
        == "\na         n\n----  -----\nx     1,000\nlong      2"
    )


def test_an_empty_table_has_its_head() -> None:
    assert table(["a", "b"], []) == "\na  b\n-  -"
