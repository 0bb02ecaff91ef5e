"""Compact the small files of a stream's tables, and verify the compaction without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.airflow.operators.base import StreamOperator, triggered_at
from sluice.airflow.operators.jobs.spark_job import SparkJobOperator
from sluice.airflow.operators.maintenance.by_catalog import OwnMaintenanceMixin
from sluice.config.tables import compacted_tables
from sluice.maintenance.compaction import CompactionVerification, pin_compaction

if TYPE_CHECKING:
    from airflow.sdk import Context


class CompactOperator(OwnMaintenanceMixin, SparkJobOperator):
    """Rewrite the small files of the stream's tables; of the dates before the param ``compact_before`` in
    a table that is partitioned by a DATE first.

    The first attempt pins the date and the newest snapshots in the ledger for later attempts and the check.
    The job publishes only a verified rewrite.
    """

    does = (
        "rewrites small files of the stream's table, its quarantine and its queries' states; skipped where "
        "the catalog does"
    )
    left = "the catalog rewrites small files"
    fails_if = "the rewrite cannot be verified to hold the same rows"

    checked = staticmethod(compacted_tables)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job="compact", **kwargs)

    def work(self, context: Context) -> dict[str, Any]:
        given, at = context["params"].get("compact_before"), context["dag_run"].run_after
        lake, run_id = self.platform_hook.lake, context["run_id"]
        pinned = pin_compaction(lake, self.spec, self.ledger, run_id, given, at, triggered_at(context))
        # Before the stream's first start there is no table.
        if pinned["main"]:
            self.submit(context, ["--before", pinned["before"]])
        return {"before": pinned["before"], "main": pinned["main"]}


class VerifyCompactionOperator(OwnMaintenanceMixin, StreamOperator):
    """Verify the rewrites since the compaction began, and those that no earlier run has verified.

    Fails without retries if one has other rows; it reverts nothing.
    """

    does = (
        "compares both sides without Spark: the same rows by their offsets, or by their values; skipped "
        "where the catalog rewrites them"
    )
    left = "the catalog rewrites small files"
    fails_if = "they differ"

    checked = staticmethod(compacted_tables)

    def work(self, context: Context) -> dict[str, Any]:
        return CompactionVerification(self.platform_hook, self.spec, self.ledger, context["run_id"]).run()
