"""JSON of a stream's status."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.config.stream import Supervision
from sluice.core.errors import Unreachable
from sluice.supervision.rules.status import LEFT_ALONE, RESTARTABLE, WELL, Health, no_action
from sluice.web.streams.health import LastCheck, severity, stream_status
from tests.support.alerting import ALERTING
from tests.support.pages import health

POLICY = Supervision(interval_seconds=100)
CHECKED = LastCheck("w_stream", paused=False, at=1000.0, passed=True)


def test_each_component_with_its_health() -> None:
    consumer = health("healthy", "120 records wait", 900.0)
    found = stream_status({"consumer": consumer, "producer": None}, CHECKED, POLICY, 1001.0)
    assert found["components"] == [
        {
            "component": "consumer",
            "health": "healthy",
            "severity": "ok",
            "message": "120 records wait",
            "since": 900.0,
        },
        {
            "component": "producer",
            "health": None,
            "severity": "none",
            "message": "not checked yet",
            "since": None,
        },
    ]


def test_what_cannot_be_read_is_red_with_the_reason() -> None:
    (component,) = stream_status({"consumer": Unreachable("S3 answered 503")}, CHECKED, POLICY, 1001.0)[
        "components"
    ]
    assert (component["health"], component["severity"]) == ("unknown", "error")
    assert "S3 answered 503" in component["message"]


def test_reasons_name_no_addresses() -> None:
    """They reach a page as JSON, to everybody who may read the stream."""
    reason = "Kafka at 10.1.2.3:9092 refused; see /srv/sluice/stream.log"
    down = health("down", reason, 900.0)
    found = stream_status({"consumer": down, "producer": Unreachable(reason)}, CHECKED, POLICY, 1001.0)
    shown = "Kafka at … refused; see …"
    assert [one["message"] for one in found["components"]] == [shown, f"its health cannot be read: {shown}"]


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
def test_health_is_current_only_after_a_recent_check(check: LastCheck, now: float, current: bool) -> None:
    found = stream_status({}, check, POLICY, now)["supervision"]
    assert found == {
        "dag": "w_stream",
        "paused": check.paused,
        "at": check.at,
        "passed": check.passed,
        "current": current,
    }


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
    fenced = health("fenced", "a load sends in its place", 900.0)
    found = stream_status({"consumer": fenced, "producer": fenced}, CHECKED, POLICY, 1001.0)
    assert [component["severity"] for component in found["components"]] == ["error", "ok"]
