"""Steps of a backfill's run: which load it is, its plan, and the files that it left out."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sluice.airflow.operators.base import StreamOperator
from sluice.airflow.operators.load.produce import ProduceOperator
from sluice.config.csv_reading import reading_of
from sluice.config.reading.toml import ConfigError
from sluice.config.sections import backfill
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, check_no_problems
from sluice.core.json_record import Document
from sluice.loads.known.verified import VerifiedSources
from sluice.loads.planning import interval as interval_plan
from sluice.loads.planning.interval import FORM, IntervalFiles
from sluice.loads.planning.plan import plan_of, reverted_of
from sluice.loads.written import inventory

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context


def is_interval(operator: BaseOperator) -> bool:
    """Whether the step is of a backfill's run, and not of a load's."""
    return operator.dag_id == backfill.dag_id(operator.stream)  # type: ignore[attr-defined]


def load_id(operator: BaseOperator, context: Context) -> str:
    """What the load's documents in the ledger are named after: the run id or, of a backfill's run, the id of
    its newest load. Raises Missing if that has no plan."""
    run_id = context["run_id"]
    if not is_interval(operator):
        return run_id
    return interval_plan.require_newest(operator.ledger, run_id)  # type: ignore[attr-defined]


class ProduceIntervalOperator(ProduceOperator):
    """Send the files of the run's interval that no load verified, once; the ledger has their offset ranges.

    Each attempt looks at the files again, so a run that is cleared or reprocessed loads what came late. An
    object of which an older version is loaded is left out; task `check_corrected_files` names it.
    """

    does = "sends every record of the interval's files to the topic, each with its identity"
    fails_if = "the interval has no file, or one is corrupt or refused"

    def plan(self, context: Context) -> Document:
        if self.spec.backfill is None:
            raise ConfigError(f"stream {self.stream!r} has no [backfill]. Fix: add it to its stream.toml")
        begin = context.get("data_interval_start")
        if begin is None:
            raise Refused(
                f"run {context['run_id']!r} has no interval. Fix: use airflow backfill create, or "
                f"{self.stream}_load with objects",
                ErrorCode.INVALID_PARAMETER,
            )
        hook, spec = self.platform_hook, self.spec
        files = IntervalFiles(
            self.ledger,
            hook.source.within(spec.source_prefix, reading_of(spec)),
            self.spec.backfill,
            verified=lambda: VerifiedSources(self.ledger, hook.lake, spec.table),
            baseline=lambda load: inventory.record_before(hook.lake, spec, self.ledger, load),
        )
        plan = files.pin(self.planner(FORM), context["run_id"], begin)
        self.log.info(
            "interval planned: load=%s pattern=%s files=%d verified_before=%d corrected=%d",
            plan["run_id"],
            plan["params"]["pattern"],
            len(plan["sources"]),
            plan["verified_before"]["count"],
            len(plan["corrected"]),
        )
        return plan


class CheckCorrectedFilesOperator(StreamOperator):
    """Fail, naming each, if the interval has a corrected file: its older version is loaded, so its rows would
    be beside the old ones. So it does if a change took out the rows of a file. The other files are loaded and
    verified by then; the interval's asset event comes once it is complete. No retries."""

    does = "names files that were corrected after they were loaded, or reverted, and are not loaded"
    fails_if = "there is one"

    # The ledger alone tells.
    checked = None

    def work(self, context: Context) -> dict[str, Any]:
        plan = plan_of(self.ledger, load_id(self, context))
        problems = [interval_plan.corrected_message(one, self.stream) for one in plan["corrected"]]
        begin = datetime.fromisoformat(plan["params"]["interval"])
        reverted = VerifiedSources(self.ledger, self.platform_hook.lake, self.spec.table).reverted
        gone = reverted_of(plan, reverted)
        problems += [interval_plan.reverted_message(key, self.stream) for key in gone]
        again = f". Then {backfill.again(self.stream, begin)}"
        check_no_problems(self.log, ErrorCode.FILE_CORRECTED, problems, "the interval is not complete", again)
        return {"load": plan["run_id"], "files": len(plan["sources"])}
