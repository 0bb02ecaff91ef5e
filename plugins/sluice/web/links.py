"""Links on tasks: the stream's page, its process's log, the plan, the proof and all documents of the run.

The API server makes them when somebody looks at a task, so they are there before it ends, cost the task
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
_PACKAGE = "sluice.airflow.operators"
_LOAD = {
    "load.produce": ("ProduceOperator",),
    "load.produce_feed": ("ProduceFeedOperator",),
    "load.interval": ("ProduceIntervalOperator", "CheckCorrectedFilesOperator"),
    "load.published": ("WaitForPublishOperator",),
    "load.validate": ("ValidateOperator",),
    "load.asset_event": ("EmitAssetEventOperator",),
    "load.reconcile": ("ReconcileSinksOperator",),
    "load.audit": ("AuditOperator",),
}
_PREPARED = {
    "load.provision": ("ProvisionTopicOperator", "ProvisionSinksOperator", "SinksProvisionedOperator"),
    "load.ensure": ("EnsureConsumerOperator", "EnsureComponentOperator"),
}
_CHANGE = {
    "change.steps": ("PlanChangeOperator", "ApplyChangeOperator"),
    "change.approval": ("ApproveChangeOperator",),
    "change.verify": ("VerifyChangeOperator",),
}
_SUPERVISION = {"supervision.supervise": ("SuperviseOperator",)}
_OTHERS = {
    "maintenance.compaction": ("CompactOperator", "VerifyCompactionOperator"),
    "maintenance.removal": ("RecordMetadataOperator", "RemoveFilesOperator", "RecordMaintenanceOperator"),
    "maintenance.reconciliation": ("ObserveOffsetsOperator", "VerifyTableOperator"),
    "maintenance.stored_files": ("CheckFilesOperator",),
}


class StreamLink(BaseOperatorLink):
    """To the stream's page; ``steps`` have this link."""

    name = "Stream"
    steps: ClassVar[Steps] = {**_LOAD, **_PREPARED, **_CHANGE, **_SUPERVISION, **_OTHERS}

    @cached_property
    def operators(self) -> list[type]:  # type: ignore[override]
        """Of the steps the names, which is all that Airflow compares: to import them would cost each Airflow
        process the Spark provider, and the API server's pages know no step."""
        return [
            type(name, (), {"__module__": f"{_PACKAGE}.{module}"})
            for module, names in self.steps.items()
            for name in names
        ]

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        return navigation.stream_page(stream_of(ti_key))


class LogLink(StreamLink):
    """The log of the process that a task starts, waits for or supervises."""

    name = "Process log"
    steps: ClassVar[Steps] = {
        "supervision.supervise": ("SuperviseOperator",),
        "load.ensure": ("EnsureConsumerOperator", "EnsureComponentOperator"),
        "load.produce_feed": ("ProduceFeedOperator",),
        "load.published": ("WaitForPublishOperator",),
    }

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        # A template field, so the serialized task has it.
        return navigation.log_page(stream_of(ti_key), operator.submitted["component"])


class PlanLink(StreamLink):
    """What the run's first attempt pinned."""

    name = "Plan"
    steps: ClassVar[Steps] = {
        **_LOAD,
        **_CHANGE,
        "maintenance.compaction": ("CompactOperator", "VerifyCompactionOperator"),
    }
    documents: ClassVar[Mapping[str, str]] = {
        "change": "change",
        "maintenance": "compaction",
    }
    default = "plan"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        stream, _, kind = ti_key.dag_id.rpartition("_")
        return navigation.ledger_page(stream, ti_key.run_id, self.documents.get(kind, self.default))


class ProofLink(PlanLink):
    """The result of the verification, if it passed."""

    name = "Proof"
    steps: ClassVar[Steps] = {
        "load.validate": ("ValidateOperator",),
        "load.asset_event": ("EmitAssetEventOperator",),
        "change.verify": ("VerifyChangeOperator",),
    }
    documents: ClassVar[Mapping[str, str]] = {"change": "change-proof"}
    default = "proof"


class LedgerLink(StreamLink):
    """All documents of the run."""

    name = "Ledger"
    steps: ClassVar[Steps] = {**_LOAD, **_PREPARED, **_CHANGE, **_OTHERS}

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        return navigation.ledger_page(stream_of(ti_key), ti_key.run_id)


def stream_of(ti_key: TaskInstanceKey) -> str:
    """Of a DAG ``<stream>_<kind>``; no kind has an underscore."""
    return ti_key.dag_id.rpartition("_")[0]


LINKS = (StreamLink(), LogLink(), PlanLink(), ProofLink(), LedgerLink())
