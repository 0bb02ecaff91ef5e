"""Which change tells what, and the texts."""

from __future__ import annotations

import pytest

from sluice.model.error_codes import ErrorCode
from sluice.model.health.status import Health
from sluice.model.notifications import Notification, after, due, has_recovered, notification
from sluice.model.pages import answer_page, run_page, stream_page
from sluice.model.remedies import fix
from sluice.model.spec.notifications import Event, Rule
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
    assert seen == [0, 2, 0, 2, 0, 2, 0, 2]


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


def test_a_notification_has_the_line_the_links_and_the_way_out() -> None:
    made = note("SLU-602 the consumer of nyc_taxi is data at risk: 5 records")
    assert made.text.splitlines() == [
        "nyc_taxi consumer: SLU-602 the consumer of nyc_taxi is data at risk: 5 records",
        "",
        "Fix: data at risk (docs/operating.md#data-at-risk) (docs/errors.md, SLU-602)",
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
    text = fix(code)
    assert code.value in text
    assert len(text) > len(f"docs/errors.md, {code.value}") + 5
    assert "](" not in text
    assert "|" not in text


def test_addresses_are_quoted() -> None:
    run = "manual__2026-01-01T00:00:00+00:00"
    quoted = "manual__2026-01-01T00%3A00%3A00%2B00%3A00"
    assert run_page("http://a/x/", "d", run) == f"http://a/x/dags/d/runs/{quoted}"
    assert answer_page("http://a", "d", run, "t") == f"http://a/dags/d/runs/{quoted}/tasks/t/required_actions"
    assert stream_page("nyc_taxi") == "sluice/streams/nyc_taxi"
