"""What pages and `make status` show of a component."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.config import streams
from sluice.config.sections.supervision import Supervision
from sluice.supervision.observer.component_view import CURRENT_SECONDS, LastCheck, component_views, severity
from sluice.supervision.observer.live import Live
from sluice.supervision.rules.status import LEFT_ALONE, RESTARTABLE, WELL, Health, no_action
from tests.support import observed
from tests.support.alerting import ALERTING

POLICY = Supervision(interval_seconds=100)
CHECKED = LastCheck("w_stream", paused=False, at=1000.0, passed=True)
SPEC = streams.load("nyc_taxi")


@pytest.mark.parametrize(
    ("check", "now", "current"),
    [
        (CHECKED, 1000.0 + 300, True),
        (CHECKED, 1000.1 + 300, False),
        (replace(CHECKED, passed=False), 1001.0, True),
        (replace(CHECKED, paused=True), 1001.0, False),
        (replace(CHECKED, paused=None), 1001.0, False),
        (replace(CHECKED, at=None, passed=None), 1001.0, False),
    ],
)
def test_a_stream_is_supervised_only_after_a_recent_check(
    check: LastCheck, now: float, current: bool
) -> None:
    assert check.is_current(POLICY, now) is current


def test_every_health_has_its_severity() -> None:
    severities = {word: severity(word.value) for word in Health}
    assert {word for word, said in severities.items() if said == "ok"} == WELL
    assert {word for word, said in severities.items() if said == "suspended"} == {Health.SUSPENDED}
    assert {word for word, said in severities.items() if said == "recovering"} == RESTARTABLE
    assert {word for word, said in severities.items() if said == "error"} == ALERTING | LEFT_ALONE
    assert severity("of a later version") == "error"


def test_a_fenced_component_is_ok_as_it_is_for_supervision() -> None:
    assert {word for word in Health if severity(word.value, "producer") in ("ok", "suspended")} == no_action(
        "producer"
    )
    assert (severity("fenced"), severity("fenced", "producer")) == ("error", "ok")


def test_what_the_observer_cannot_say_needs_a_person() -> None:
    """Before its first cycle there is no news yet, which is no failure."""
    (first,) = component_views(SPEC, {}, CHECKED, 1000.0)
    assert (first.severity, first.is_current, first.health) == ("none", False, "not observed yet")
    away = Live(errors={"observer": "it does not answer"})
    (view,) = component_views(SPEC, {"consumer": away}, CHECKED, 1000.0)
    assert (view.severity, view.is_current, view.problems) == (
        "error",
        False,
        ["observer: it does not answer"],
    )


def test_an_observation_that_is_no_longer_current_needs_a_person() -> None:
    lives = {"consumer": observed.consumer(SPEC, 1000.0)}
    (view,) = component_views(SPEC, lives, CHECKED, 1000.0 + CURRENT_SECONDS)
    assert (view.severity, view.is_current) == ("ok", True)
    (view,) = component_views(SPEC, lives, CHECKED, 1000.1 + CURRENT_SECONDS)
    assert (view.severity, view.is_current, view.health) == ("error", False, "healthy")
