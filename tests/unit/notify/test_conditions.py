"""Which rules are due, and which condition is the same."""

from __future__ import annotations

import pytest

from sluice.config.notifications import Rule
from sluice.notify.conditions import after, due, ends_outage, scheduled_condition
from sluice.supervision.rules.status import Health
from tests.support.alerting import ALERTING

MAIL, CHAT = Rule("smtp"), Rule("x.Chat")
RULES = [MAIL, CHAT]


def test_each_condition_of_an_outage_is_told_once_and_then_its_end() -> None:
    told: dict[str, list[str]] = {}
    seen = []
    for condition in ("", "SLU-602", "SLU-602", "SLU-607", "SLU-602", "", "", "SLU-602"):
        rules = due(RULES, told, condition)
        told = after(RULES, told, condition, rules)
        seen.append(len(rules))
    assert seen == [0, 2, 0, 2, 2, 2, 0, 2], "another health came between"


def test_a_rule_that_failed_is_due_again_and_no_other() -> None:
    told = after(RULES, {}, "SLU-602", [CHAT])
    assert due(RULES, told, "SLU-602") == [MAIL]
    assert due(RULES, told, "") == [CHAT], "who was told of nothing is not told of its end"
    told = after(RULES, told, "", [CHAT])
    assert told == {}


def test_a_new_rule_is_told_of_what_is_broken() -> None:
    told = after([MAIL], {}, "SLU-602", [MAIL])
    assert due(RULES, told, "SLU-602") == [CHAT]


@pytest.mark.parametrize("health", Health)
def test_only_what_works_ends_an_outage(health: Health) -> None:
    works = health in (Health.HEALTHY, Health.IDLE, Health.CATCHING_UP)
    assert ends_outage("consumer", health) is works
    assert ends_outage("producer", health) is (works or health is Health.FENCED)
    assert not (works and health in ALERTING)


@pytest.mark.parametrize("condition", ["SLU-512", "SLU-602"])
def test_a_late_run_ends_no_health(condition: str) -> None:
    told = after(RULES, {MAIL.id: ["SLU-602"]}, condition, due([MAIL], {MAIL.id: ["SLU-602"]}, condition))
    assert "SLU-602" in told[MAIL.id]


def test_who_gives_no_answer_twice_counts_as_told() -> None:
    told = after([MAIL], {}, "SLU-602", [], [MAIL])
    assert due([MAIL], told, "SLU-602") == due([MAIL], told, "") == [MAIL]
    told = after([MAIL], told, "SLU-602", [], [MAIL])
    assert due([MAIL], told, "SLU-602") == []


def test_a_finding_is_the_same_with_other_numbers() -> None:
    one, other = (
        scheduled_condition(
            "verify_table",
            f"SLU-430 raw.x: 2 findings (main-moved, range-wrong): range-wrong: {n}; main-moved: {n}",
        )
        for n in (1, 2)
    )
    assert one == other == "verify_table: SLU-430 main-moved range-wrong"


def test_a_finding_that_a_message_only_quotes_is_none() -> None:
    told = "SLU-430 raw.x: 1 findings (file-damaged): file-damaged: s3://b/main-moved: not found"
    assert scheduled_condition("check_files", told) == "check_files: SLU-430 file-damaged"
