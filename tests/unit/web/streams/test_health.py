"""JSON of a stream's status."""

from __future__ import annotations

from dataclasses import asdict, replace

from sluice.config.sections.supervision import Supervision
from sluice.supervision.observer.component_view import LastCheck, component_views
from sluice.supervision.observer.live import Live
from sluice.supervision.rules.status import Health, HealthReport
from sluice.web.streams.health import stream_status
from tests.support import observed
from tests.support.pages import spec

NOW = 1_800_000_000.0
POLICY = Supervision(interval_seconds=100)
CHECKED = LastCheck("w_stream", paused=False, at=NOW - 41, passed=True)


def status(lives: dict[str, Live], check: LastCheck = CHECKED, now: float = NOW) -> dict[str, object]:
    return stream_status(component_views(spec(), lives, check, now), check, POLICY, now)


def lives() -> dict[str, Live]:
    return {name: live for (_, name), live in observed.streams([spec()], NOW).lives.items()}


def test_each_component_with_its_health() -> None:
    found = status(lives())
    assert found["components"] == [
        {
            "component": "consumer",
            "health": "healthy",
            "severity": "ok",
            "message": "120 records wait, 10/s arrive",
            "since": NOW - 4000,
        },
        *(
            {
                "component": name,
                "health": "idle",
                "severity": "ok",
                "message": f"{spec().component(name).program} waits",
                "since": NOW - 90,
            }
            for name in ("producer", "queries")
        ),
    ]
    assert found["worst"] == "consumer", "the first, if all are alike"
    assert (found["current"], found["supervision"]) == (True, asdict(CHECKED) | {"current": True})


def test_the_worst_component_is_the_pages_pill() -> None:
    """One order for all pages: a stopped component is shown before one that is off or not observed yet."""
    known = lives()
    del known["producer"]
    known["queries"] = replace(known["queries"], report=HealthReport(Health.SUSPENDED, "suspended by ada"))
    assert status(known)["worst"] == "queries"
    known["producer"] = replace(lives()["producer"], report=HealthReport(Health.DOWN, "exit 1"))
    assert status(known)["worst"] == "producer"


def test_what_is_not_observed_is_red_with_the_reason_and_without_addresses() -> None:
    """They reach a page as JSON, to everybody who may read the stream."""
    reason = "the observer at http://10.1.2.3:18083 does not answer; see /srv/sluice/observer.log"
    known = lives()
    known["consumer"] = Live(errors={"observer": reason})
    known["producer"] = replace(known["producer"], report=HealthReport(Health.DOWN, reason))
    found = status(known)
    assert isinstance(found["components"], list)
    consumer, producer, _ = found["components"]
    shown = "the observer at … does not answer; see …"
    assert (consumer["severity"], consumer["message"]) == ("error", f"observer: {shown}")
    assert (producer["severity"], producer["message"], found["current"]) == ("recovering", shown, False)


def test_health_is_current_without_supervision() -> None:
    """The observer's is of now, whether a check of Airflow follows or not."""
    paused = replace(CHECKED, paused=True)
    found = status(lives(), paused)
    assert (found["current"], found["supervision"]) == (True, asdict(paused) | {"current": False})
    assert status(lives(), now=NOW + 31)["current"] is False
