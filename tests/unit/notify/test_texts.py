"""The texts of a notification."""

from __future__ import annotations

import pytest

from sluice.config.notifications import Event
from sluice.core.addresses import answer_page, run_page, stream_page
from sluice.core.error_codes import ErrorCode
from sluice.notify.remedies import remedy
from sluice.notify.texts import Notification
from tests.support import notifier


def note(message: str) -> Notification:
    return notifier.note(Event.ALERT, "nyc_taxi", "consumer", message, ("d", "r"))


def test_a_health_has_the_way_out_of_its_guide() -> None:
    code = next(code for code in ErrorCode if code.name == "HEALTH_FENCED")
    assert "Find the second process" in note(f"{code.value} x").remedy


def test_a_notification_has_the_line_the_links_and_the_way_out() -> None:
    made = note("SLU-602 the consumer of nyc_taxi is data at risk: 5 records")
    see = "data at risk (docs/operating.md#data-at-risk) (docs/errors.md, SLU-602)"
    assert made.text.splitlines() == [
        "nyc_taxi consumer: SLU-602 the consumer of nyc_taxi is data at risk: 5 records",
        "",
        f"Fix: Make the stream publish, and raise the topic's retention.ms at once. See {see}",
        "See: http://a/dags/d/runs/r",
        "Stream: http://a/sluice/streams/nyc_taxi",
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
