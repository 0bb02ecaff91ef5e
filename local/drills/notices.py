"""Who may notice a break, and how a drill sees that they did: each gives the moment and who, or None."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from local.drills.drill import Notice, Scene
from sluice.model.health import CALM, RESTARTABLE, Verdict


def moment(text: str) -> float:
    """Seconds since 1970 of an ISO 8601 time."""
    return datetime.fromisoformat(text).timestamp()


def is_calm(event: dict[str, Any]) -> bool:
    """Whether a verdict event says that nothing is to be done."""
    return Verdict(event["verdict"]) in CALM


def events(scene: Scene, kind: str) -> list[dict[str, Any]]:
    """What supervision wrote into the stream's history since the break, oldest first."""
    if not scene.broken:
        return []
    return scene.site.history.since(kind, datetime.fromtimestamp(scene.broken).astimezone())


def by_verdict(scene: Scene) -> tuple[float, str] | None:
    """Supervision: the first verdict that is not calm."""
    return _first(scene, lambda verdict: verdict not in CALM)


def by_verdict_to_restart(scene: Scene) -> tuple[float, str] | None:
    """Supervision: the first verdict that a restart follows, where another one is no news."""
    return _first(scene, lambda verdict: verdict in RESTARTABLE)


def _first(scene: Scene, fits: Callable[[Verdict], bool]) -> tuple[float, str] | None:
    for event in events(scene, "verdict"):
        if fits(Verdict(event["verdict"])):
            return moment(event["at"]), f"verdict {event['verdict']}"
    return None


def by_red_run(scene: Scene) -> tuple[float, str] | None:
    """Whoever looks at Airflow: a run of the supervising DAG that failed. Where the bucket does not answer,
    no verdict can be written down."""
    failed = [
        moment(run["end_date"])
        for run in scene.site.supervision_runs()
        if run["state"] == "failed" and run["end_date"] and moment(run["end_date"]) > scene.broken
    ]
    return (min(failed), f"a red run of {scene.site.supervision}") if failed else None


def by_supervisord(program: str) -> Notice:
    """supervisord has started the program again; `scene.kept["pids"]` holds the process ids of before."""

    def look(scene: Scene) -> tuple[float, str] | None:
        info = scene.site.process(program)
        if not info["pid"] or info["pid"] == scene.kept["pids"][program]:
            return None
        # In whole seconds, so it may seem to be earlier than the break.
        return max(float(info["start"]), scene.broken), "supervisord"

    return look
