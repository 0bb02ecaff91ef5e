"""What of an end is a problem, and how rows are shown."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.connection_check.rows import (
    CLOCK_SECONDS,
    SOON_SECONDS,
    Rights,
    Row,
    Span,
    compared,
    documents,
    failures,
    judge,
    remarks,
    table,
)

NOW, DAY = 1_800_000_000.0, 86400.0
YEAR = 365 * DAY


def row(**found: Any) -> Row:
    """``certificate`` and ``own``: of a chain of one, if it is no chain."""
    for name in ("certificate", "own"):
        if isinstance(found.get(name), Span):
            found[name] = (found[name],)
    made = Row("consumer", "kafka broker", "broker:9093", "SCRAM-SHA-512 sluice-consumer", **found)
    judge(made, NOW)
    return made


def problem(**found: Any) -> str:
    """The only one, as a line."""
    (line,) = failures([row(**found)])
    return line


def ending(left: float, whole: float = YEAR) -> Span:
    return Span(NOW + left - whole, NOW + left)


def test_a_certificate_is_told_of_two_weeks_before_its_end() -> None:
    assert not row(certificate=ending(SOON_SECONDS + 1)).problems
    line = problem(certificate=ending(SOON_SECONDS - 1))
    assert line.startswith("consumer kafka broker broker:9093: the server's certificate ends in 13 d 23 h")
    assert "Fix: renew it there" in line


def test_a_certificate_of_some_days_or_hours_is_told_of_when_a_third_is_left() -> None:
    assert not row(own=ending(1.1 * DAY, 3 * DAY)).problems
    assert "own certificate ends in 23 h" in problem(own=ending(0.99 * DAY, 3 * DAY))
    assert not row(own=ending(9 * 3600, DAY)).problems


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("certificate", "the server's certificate"),
        ("own", "this role's own certificate"),
        ("authority", "the declared CA's certificate"),
        ("token", "the token"),
    ],
)
def test_what_has_ended_is_named(name: str, words: str) -> None:
    line = problem(**{name: ending(-3600)})
    assert f"{words} ended 1 h ago, 2027-01-15T07:00:00+00:00. Fix: " in line


def test_each_certificate_of_a_chain_counts_by_its_own_time() -> None:
    """One of a day, which may end in nine hours, before one of a year, which may not end in five days."""
    chain = (ending(9 * 3600, DAY), Span(NOW - YEAR, NOW + 5 * DAY, "the one between"))
    line = problem(certificate=chain)
    assert "the certificate of the one between behind the server's certificate ends in 5 d" in line
    seen = row(certificate=chain[::-1])
    assert "9 h" in table([seen], NOW)


def test_a_token_that_is_fetched_again_may_end() -> None:
    assert not row(token=ending(5, 300), is_renewed=True).problems
    assert "the token ends in 5 s" in problem(token=ending(5, 300))


def test_a_token_of_a_file_is_told_of_when_it_was_not_written_again_in_time() -> None:
    """The kubelet does it when a fifth is left."""
    assert not row(token=ending(0.15 * 3600, 3600), is_written=True).problems
    line = problem(token=ending(0.09 * 3600, 3600), is_written=True)
    assert "the token ends in 5 min" in line
    assert line.endswith("Fix: let what writes its file renew it")


def test_a_certificate_of_tomorrow_is_a_clock_that_is_behind() -> None:
    line = problem(certificate=Span(NOW + 3600, NOW + YEAR))
    assert "is not yet valid" in line
    assert "in 1 h by this machine's clock. Fix: set the clock of this machine" in line
    assert not row(certificate=Span(NOW + CLOCK_SECONDS - 1, NOW + YEAR)).problems


@pytest.mark.parametrize(("seconds", "side"), [(3600.0, "behind"), (-3600.0, "ahead of")])
def test_a_clock_an_hour_off_is_one_line_with_the_fix(seconds: float, side: str) -> None:
    line = problem(clock=seconds)
    assert f"this machine's clock is 1 h {side} the server's. Fix: set the clocks of both" in line
    assert not row(clock=seconds / 100).problems


def test_a_connection_that_is_not_verified_is_said() -> None:
    seen = row(tls="TLSv1.3, not verified")
    assert "Fix: declare its CA" in remarks([seen])[0]
    assert not row(tls="TLSv1.3").remarks


def test_a_missing_right_fails_and_one_too_many_is_a_remark() -> None:
    found = compared([("READ on topic t", True, False), ("WRITE on topic t", False, True)])
    assert found == Rights(("READ on topic t",), ("WRITE on topic t",), 2)
    seen = row(rights=found)
    (line,) = failures([seen])
    assert line.startswith("consumer kafka broker broker:9093: 1 right missing: READ on topic t. Fix: grant ")
    assert "[kafka] of consumer.toml" in line
    assert remarks([seen]) == ["consumer kafka broker broker:9093: 1 right too many: WRITE on topic t"]
    assert str(found) == "1 missing, 1 too many"


def test_a_right_that_is_missing_in_a_database_of_results_names_its_connection() -> None:
    found = compared([("INSERT on table t", True, False)])
    seen = Row("consumer", "connection sluice_results", "db:5432/results", "user etl", rights=found)
    judge(seen, NOW)
    (line,) = failures([seen])
    assert line.startswith("consumer connection sluice_results db:5432/results: 1 right missing: INSERT")
    fix = (
        "grant the user of Airflow connection sluice_results what docs/your-own-systems.md has for a database"
    )
    assert fix in line
    assert ".toml" not in line


def test_what_is_needed_and_there_is_counted() -> None:
    found = compared([("a", True, True), ("b", False, False)])
    assert not row(rights=found).problems
    assert not row(rights=found).remarks
    assert str(found) == "2 as needed"


def test_all_is_in_one_table() -> None:
    seen = row(
        tls="TLSv1.3",
        certificate=ending(40 * DAY),
        own=ending(-1),
        token=ending(100),
        is_renewed=True,
        clock=-75.0,
        rights=Rights(asked=4),
    )
    head, _, line = table([seen], NOW).splitlines()
    assert head.split()[:4] == ["role", "end", "address", "login"]
    for text in ("TLSv1.3", "40 d", "ended", "1 min 40 s", "-1 min 15 s", "4 as needed", "FAILED"):
        assert text in line
    (_, _, other) = table([row(clock=1.0)], NOW).splitlines()
    assert other.split()[-3:] == ["same", "–", "ok"]


def test_a_program_gets_all_of_it() -> None:
    (document,) = documents([row(own=ending(-1), rights=Rights(("x",), ("y",), 2))])
    assert document["own_certificate_ends"] == "2027-01-15T07:59:59+00:00"
    assert document["token_ends"] is None
    assert (document["rights_missing"], document["rights_too_many"]) == (["x"], ["y"])
    assert document["is_ok"] is False
    assert len(document["problems"]) == 2
