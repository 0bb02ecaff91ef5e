"""Links on tasks: the stream's page, its process's log, the plan, the proof and all documents of the run.

The API server makes them when a user opens a task, so they are there before it ends, cost the task
nothing, and need no XCom. There is none to Spark's UI: it is off (``spark.ui.enabled``), because it opens a
port without a login on the driver's machine. The page of running queries has Spark's metrics of each batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperatorLink

from sluice.web import navigation

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

# Module below `_PACKAGE` -> its classes.
Steps = Mapping[str, tuple[str, ...]]
_PACKAGE = "sluice.airflow"
_LOAD = {
    "operators.load.produce": ("ProduceOperator",),
    "operators.load.produce_feed": ("ProduceFeedOperator",),
    "operators.load.interval": ("ProduceIntervalOperator", "CheckCorrectedFilesOperator"),
    "sensors.published": ("PublishedSensor",),
    "operators.load.validate": ("ValidateOperator",),
    "operators.load.asset_event": ("EmitAssetEventOperator",),
    "operators.load.compare_sinks": ("CompareSinksOperator",),
    "operators.load.audit": ("AuditOperator",),
}
_PREPARED = {
    "operators.load.provision": ("ProvisionTopicOperator", "ProvisionSinksOperator"),
    "operators.load.ensure": ("EnsureConsumerOperator", "EnsureComponentOperator"),
}
_CHANGE = {
    "operators.change.steps": ("PlanChangeOperator", "ApplyChangeOperator", "VerifyChangeOperator"),
    "operators.change.approval": ("ApproveChangeOperator",),
}
_SUPERVISION = {
    "operators.supervision.supervise": ("SuperviseOperator",),
    "operators.supervision.sinks": ("SuperviseSinksOperator", "SinksProvisionedOperator"),
}
_SENSORS = {"sensors.health": ("StreamHealthSensor",)}
_OTHERS = {
    "operators.maintenance.compaction": ("CompactOperator", "VerifyCompactionOperator"),
    "operators.maintenance.removal": (
        "RecordMetadataOperator",
        "RemoveFilesOperator",
        "RemoveHistoryOperator",
        "RecordMaintenanceOperator",
    ),
    "operators.maintenance.reconciliation": (
        "ObserveOffsetsOperator",
        "VerifyTableOperator",
        "CheckFilesOperator",
    ),
}


class StreamLink(BaseOperatorLink):
    """To the stream's page; ``steps`` have this link."""

    name = "Stream"
    steps: ClassVar[Steps] = {**_LOAD, **_PREPARED, **_CHANGE, **_SUPERVISION, **_SENSORS, **_OTHERS}

    @cached_property
    def operators(self) -> list[type]:  # type: ignore[override]
        """Stand-ins with the steps' names, which is all that Airflow compares: to import them would cost each
        Airflow process the Spark provider, and the API server's pages know no step."""
        return [
            type(name, (), {"__module__": f"{_PACKAGE}.{module}"})
            for module, names in self.steps.items()
            for name in names
        ]

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        return navigation.stream_page(stream_of(operator, ti_key))


class LogLink(StreamLink):
    """The log of the process that a task starts, waits for or supervises."""

    name = "Process log"
    steps: ClassVar[Steps] = {
        "operators.supervision.supervise": ("SuperviseOperator",),
        "operators.load.ensure": ("EnsureConsumerOperator", "EnsureComponentOperator"),
        "operators.load.produce_feed": ("ProduceFeedOperator",),
        "sensors.published": ("PublishedSensor",),
        **_SENSORS,
    }

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        # A template field, so the serialized task has it.
        return navigation.log_page(stream_of(operator, ti_key), operator.submitted["component"])


class PlanLink(StreamLink):
    """What the run's first attempt pinned."""

    name = "Plan"
    steps: ClassVar[Steps] = {
        **_LOAD,
        **_CHANGE,
        "operators.maintenance.compaction": ("CompactOperator", "VerifyCompactionOperator"),
    }
    documents: ClassVar[Mapping[str, str]] = {
        "change": "change",
        "maintenance": "compaction",
    }
    default = "plan"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        stream, _, kind = ti_key.dag_id.rpartition("_")
        if stream != stream_of(operator, ti_key):
            return super().get_link(operator, ti_key=ti_key)
        return navigation.ledger_page(stream, ti_key.run_id, self.documents.get(kind, self.default))


class ProofLink(PlanLink):
    """The result of the verification, if it passed."""

    name = "Proof"
    steps: ClassVar[Steps] = {
        "operators.load.validate": ("ValidateOperator",),
        "operators.load.asset_event": ("EmitAssetEventOperator",),
        "operators.change.steps": ("VerifyChangeOperator",),
    }
    documents: ClassVar[Mapping[str, str]] = {"change": "change-proof"}
    default = "proof"


class LedgerLink(StreamLink):
    """All documents of the run."""

    name = "Ledger"
    steps: ClassVar[Steps] = {**_LOAD, **_PREPARED, **_CHANGE, **_OTHERS}

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        if _dag_stream(ti_key) != stream_of(operator, ti_key):
            return super().get_link(operator, ti_key=ti_key)
        return navigation.ledger_page(_dag_stream(ti_key), ti_key.run_id)


def stream_of(operator: Any, ti_key: TaskInstanceKey) -> str:
    """The task's stream. A sensor may be in another DAG than the stream's; that has no page of documents."""
    return str(getattr(operator, "submitted", {}).get("stream") or _dag_stream(ti_key))


def _dag_stream(ti_key: TaskInstanceKey) -> str:
    """Return the stream of a DAG ``<stream>_<kind>``; no kind has an underscore."""
    return ti_key.dag_id.rpartition("_")[0]


LINKS = (StreamLink(), LogLink(), PlanLink(), ProofLink(), LedgerLink())
