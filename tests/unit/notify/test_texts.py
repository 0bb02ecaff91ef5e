"""Which change tells what, and the texts."""

from __future__ import annotations

import pytest

from sluice.config.sections.notifications import Event, Rule
from sluice.core.addresses import answer_page, run_page, stream_page
from sluice.core.error_codes import ErrorCode
from sluice.notify.remedies import remedy
from sluice.notify.texts import Notification, after, due, has_recovered, notification, scheduled_condition
from sluice.supervision.rules.status import Health
from tests.support.alerting import ALERTING

MAIL, CHAT = Rule("smtp"), Rule("x.Chat")
RULES = [MAIL, CHAT]


def note(message: str) -> Notification:
    places = {"link": "http://a/l", "page": "http://a/p"}
    return notification(Event.ALERT, "nyc_taxi", "consumer", message, run=("d", "r"), **places)


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
def test_only_what_works_has_recovered(health: Health) -> None:
    works = health in (Health.HEALTHY, Health.IDLE, Health.CATCHING_UP)
    assert has_recovered("consumer", health) is works
    assert has_recovered("producer", health) is (works or health is Health.FENCED)
    assert not (works and health in ALERTING)


@pytest.mark.parametrize("condition", ["SLU-512", "SLU-602"])
def test_a_late_run_ends_no_health(condition: str) -> None:
    told = after(RULES, {MAIL.id: ["SLU-602"]}, condition, due([MAIL], {MAIL.id: ["SLU-602"]}, condition))
    assert "SLU-602" in told[MAIL.id]


def test_a_health_has_the_way_out_of_its_guide() -> None:
    code = next(code for code in ErrorCode if code.name == "HEALTH_FENCED")
    assert "Find the second process" in note(f"{code.value} x").remedy


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


def test_a_notification_has_the_line_the_links_and_the_way_out() -> None:
    made = note("SLU-602 the consumer of nyc_taxi is data at risk: 5 records")
    see = "data at risk (docs/operating.md#data-at-risk) (docs/errors.md, SLU-602)"
    assert made.text.splitlines() == [
        "nyc_taxi consumer: SLU-602 the consumer of nyc_taxi is data at risk: 5 records",
        "",
        f"Fix: Make the stream publish, and raise the topic's retention.ms at once. See {see}",
        "See: http://a/l",
        "Stream: http://a/p",
    ]
    assert made.subject.startswith("Sluice alert: nyc_taxi consumer: SLU-602")


def test_what_a_message_quotes_is_no_markup_no_header_and_no_template() -> None:
    made = note("SLU-500 <script>{{ 7*7 }}</script>\nBcc: all@example.com")
    assert "\n" not in made.subject + made.message
    assert "Bcc" not in made.text
    assert "&lt;script&gt;{{ 7*7 }}" in made.html
    assert len(note("x" * 3000).subject) <= 120
    assert len(note("x" * 3000).message) < 600


@pytest.mark.parametrize("code", ErrorCode)
def test_every_code_has_a_way_out_without_markup(code: ErrorCode) -> None:
    text = remedy(code, "nyc_taxi")
    assert text.endswith(f" (docs/errors.md, {code.value})")
    assert len(text) > len(f"docs/errors.md, {code.value}") + 5
    assert not {"`", "|", "{"} & set(text)
    assert "](" not in text


def test_addresses_are_quoted() -> None:
    run = "manual__2026-01-01T00:00:00+00:00"
    quoted = "manual__2026-01-01T00%3A00%3A00%2B00%3A00"
    assert run_page("http://a/x/", "d", run) == f"http://a/x/dags/d/runs/{quoted}"
    assert answer_page("http://a", "d", run, "t") == f"http://a/dags/d/runs/{quoted}/tasks/t/required_actions"
    assert stream_page("nyc_taxi") == "sluice/streams/nyc_taxi"
