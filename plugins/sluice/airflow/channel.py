"""What Airflow gives to tell people with: its address, its notifiers, and XComs for the run after."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowRuntimeError

from sluice.airflow.delivery import deliver
from sluice.config.notifications import Rule
from sluice.core import addresses
from sluice.notify.conditions import Told
from sluice.notify.occasions import Occasion
from sluice.notify.texts import Notification, notification

log = logging.getLogger(__name__)


def base_url() -> str:
    return str(conf.get("api", "base_url", fallback="http://localhost:8080"))


def form(stream: str) -> str:
    """Address of the page with the trigger form of ``<stream>_stream``, for its actions."""
    return addresses.dag_page(base_url(), f"{stream}_stream")


def compose(occasion: Occasion, run: tuple[str, str], task: str = "") -> Notification:
    """``run``: dag and run id."""
    return notification(
        *(occasion.event, occasion.stream, occasion.about, occasion.message, run),
        base_url=base_url(),
        task=task,
        remedy=occasion.remedy,
        form=form(occasion.stream) if occasion.is_component else "",
        findings=occasion.findings,
    )


class RunChannel:
    """The channel of the run of ``context``. ``keeps``: it takes XComs, unlike a callback's in the DAG
    processor."""

    def __init__(self, context: Mapping[str, Any], *, keeps: bool = True) -> None:
        self.context, self.keeps = context, keeps

    @property
    def started(self) -> datetime | None:
        """When the run started; a cleared run starts again, so it may be reported again."""
        start: datetime | None = getattr(self.context.get("dag_run"), "start_date", None)
        return start

    def deliver(self, rules: Sequence[Rule], note: Notification) -> dict[str, str]:
        return deliver(rules, note, self.context)

    def failed_before(self) -> bool:
        """Whether the task of the run before failed too, or that cannot be asked. False if Airflow does not
        know.

        Airflow finds the run before by its logical date: of a run without one it may answer any run.
        """
        if not self._has_logical_date():
            return True
        before = self._before()
        return before is not None and before.state == "failed"

    def remembered(self, name: str) -> Told | None:
        before = self._before() if self.keeps else None
        if before is None:
            return None
        ti = self.context["ti"]
        try:
            kept = ti.xcom_pull(task_ids=ti.task_id, key=_key(name), run_id=before.run_id, map_indexes=-1)
        except AirflowRuntimeError as error:
            log.warning("what the run before told is unknown: %s", error)
            return None
        return Told(kept["told"], datetime.fromisoformat(kept["at"])) if kept else None

    def remember(self, name: str, told: Told) -> None:
        ti = self.context.get("ti")
        if ti is None or told.at is None or not self.keeps:
            return
        value = {"at": told.at.isoformat(), "told": told.conditions}
        try:
            ti.xcom_push(key=_key(name), value=value)
        except AirflowRuntimeError as error:
            log.error("what was told is not kept for the run after: %s", error)

    def _has_logical_date(self) -> bool:
        return getattr(self.context.get("dag_run"), "logical_date", None) is not None

    def _before(self) -> Any:
        """The task's instance of the run before; None if there is none, or Airflow does not know."""
        ti = self.context.get("ti")
        if ti is None or not self._has_logical_date():
            return None
        try:
            before = ti.get_previous_ti()
        except AirflowRuntimeError as error:
            log.warning("previous task instance unknown: %s", error)
            return None
        return None if before is None or before.run_id == self.context["run_id"] else before


def _key(name: str) -> str:
    return f"told_{name}"
