"""A step of a load: compare the queries' sinks with the lake."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sluice.airflow import connections
from sluice.airflow.operators.base import StreamOperator
from sluice.airflow.operators.load.interval import load_id
from sluice.config.tables import lake_tables
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import check_no_problems
from sluice.ledger import run_documents
from sluice.ledger.keys import beside_proof, now
from sluice.loads import sources
from sluice.loads.planning.plan import plan_of
from sluice.loads.sending import produced
from sluice.loads.verification import checks
from sluice.queries.compare import report

if TYPE_CHECKING:
    from airflow.sdk import Context


class CompareSinksOperator(StreamOperator):
    """Recount the lake's rows without Spark, compare with every sink, and fail naming the keys that differ.

    ``reconciliation.json`` in the ledger is, shortened, the return value.
    """

    does = "recounts the lake's rows, and compares every sink"
    fails_if = "a result differs from the lake"

    checked = staticmethod(lake_tables)

    def work(self, context: Context) -> dict[str, Any]:
        from sluice.queries.sinks import SinksCheck

        load, lake = load_id(self, context), self.platform_hook.lake
        task = self.spec.planning_task
        planned = sources.read_all(plan_of(self.ledger, load, task)["sources"])
        expected = produced.offsets_of_all(produced.of_run(self.ledger, load, task))
        # The load's rows are in the files that were committed since it was planned.
        tasks = checks.files_since(lake.table(self.spec.table), self.spec.table, planned)
        check = SinksCheck(self.spec, lake, self.platform_hook.platform.kafka, connections.database)
        results = check.compare_load(expected, tasks)
        self.log.info("%s", report(results))
        problems = [problem for compared in results for problem in compared.problems()]
        check_no_problems(self.log, ErrorCode.SINKS_DIFFER, problems, "sinks differ from the lake")
        # Supervision, which says so within minutes, may be paused.
        self.tables.note(*lake_tables(self.spec))
        document = {"at": now(), "queries": [asdict(compared) for compared in results]}
        key = run_documents.proof_key(self.ledger, load)
        self.ledger.put(beside_proof(key, "reconciliation"), document)
        return {compared.query: compared.summary() for compared in results}
