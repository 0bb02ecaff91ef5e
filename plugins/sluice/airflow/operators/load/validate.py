"""A step of a load: verify it from the table, the quarantine and the sources alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.airflow.operators.load.interval import load_id
from sluice.airflow.operators.quarantine import QuarantineOperator
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import check_no_problems
from sluice.ledger.keys import PROOF, run_key
from sluice.loads.verification.proof import SHOWN_PROBLEMS, report, short
from sluice.loads.verification.verify import LoadVerification

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from sluice.loads.verification.proof import VerifiedLoad


class ValidateOperator(QuarantineOperator):
    """Verify the load (``loads.verification``), or fail naming each gap, duplicate, missing row and wrong
    column. Param ``max_quarantined_percent`` limits the share of the rows in quarantine.

    The proof goes into the ledger as ``proof.json``; its counts and address are the return value. Then each
    source gets its verified document. No retries: the result would be the same.
    """

    does = "verifies every offset and record independently"
    fails_if = "there is a gap, a duplicate or a missing record, or too much in quarantine"

    verification = LoadVerification
    # Set by this attempt; None until it has read the table.
    verified_load: VerifiedLoad | None = None

    def work(self, context: Context) -> dict[str, Any]:
        run_id = load_id(self, context)
        self.submitted["plan"] = self.ledger.uri(run_key(run_id, "plan"))
        verification = self.verification.of(self.platform_hook, self.spec, self.ledger, run_id)
        self.settle()
        load = verification.verify(float(context["params"].get("max_quarantined_percent", 0)))
        self._log(load)
        self.verified_load = load
        if load.problems:
            verification.record_failure(load)
        check_no_problems(
            self.log,
            ErrorCode.LOAD_NOT_VERIFIED,
            load.problems,
            "verification failed",
            most=SHOWN_PROBLEMS,
        )
        self.tables.note(self.spec.table, self.spec.quarantine_table)
        self.verified_load, proof = verification.write_proof(load, self.mark)
        return short(proof, self.verified_load.proof)

    def _log(self, load: VerifiedLoad) -> None:
        self.log.info("%s", load.check.message())
        self.log.info("%s", report(load.result))
        for name in ("gaps", "duplicates", "unexpected"):
            if found := getattr(load.result.offsets, name):
                self.log.error("%s: %s: %s", name, self.spec.topic.name, found)

    def mark(self, key: str) -> None:
        """Leave in Airflow's database that the ledger has the record of a proof."""
        self.marks_of(self.ledger).leave(PROOF, key)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any] | None:
        """Airflow's OpenLineage provider calls it, if a user has configured a transport."""
        if self.verified_load is None:
            return None
        from sluice.airflow.operators.load.lineage import of_load

        return of_load(self.verified_load, self.platform_hook.platform, self.spec)

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> OperatorLineage[Any, Any] | None:
        """The same with the problems: a load that is not verified is in the table too."""
        return self.get_openlineage_facets_on_complete(task_instance)
