"""Which records are in quarantine on purpose: those that the ledger says were planned so.

A record's key says that it is withheld, or of which row it is a copy; but any producer may send such a key,
and the consumer asks no ledger. So the plan of each source is asked for once, when its first records come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sluice.core.offsets.quarantine import CONSUMER_STAGE, ON_PURPOSE, WITHHELD
from sluice.core.offsets.sources import source_id
from sluice.ledger.keys import planned_key
from sluice.loads.known.index import newest_contents
from sluice.maintenance.reconciliation.verified_table import OnPurpose, WithheldPlan

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from sluice.core.json_record import Document
    from sluice.core.offsets.offset_set import OffsetSet
    from sluice.ledger.documents import Ledger
    from sluice.loads.known.verified import VerifiedSources

# A version that was loaded with `withhold` waits no longer than this for its replace unsaid.
WAITS = timedelta(hours=24)


def ask_for_plans(
    before: OnPurpose, ledger: Ledger, exchanged: Exchanged, sources: Callable[[], VerifiedSources]
) -> OnPurpose:
    """``before`` with the ``exchanged`` records. ``sources``: of the table. A GET for each source of new
    records that is not known as withheld; once for each that is a LIST and a GET more."""
    from sluice.clients.s3.requests import at_once

    without_plan = before.withheld.keys() - before.plans.keys()
    names = sorted({source for source, _ in exchanged.new} - before.withheld.keys() | without_plan)
    found = dict(zip(names, at_once(names, lambda one: ledger.get(planned_key(one))), strict=True))
    planned = {source for source, document in found.items() if document is not None}
    to_withhold = {source for source in planned if (found[source] or {}).get("withheld")}
    known = before.withheld.keys() | planned, before.withheld.keys() | to_withhold
    unplanned = sum(
        n for (source, is_withheld), n in exchanged.new.items() if source not in known[is_withheld]
    )
    now = {source: before.withheld.get(source, 0) + exchanged.withheld[source] for source in known[True]}
    withheld = {source: n for source, n in sorted(now.items()) if n > 0}
    new = [plan for source in withheld.keys() - before.plans.keys() if (plan := found.get(source))]
    plans = dict(before.plans)
    if new:
        incarnation = sources().incarnation
        asked = at_once(new, lambda plan: _with_older(ledger, incarnation, plan))
        plans |= {plan["source_id"]: one for plan, one in zip(new, asked, strict=True)}
    plans = {source: plans[source] for source in withheld if source in plans}
    return OnPurpose(before.unplanned + unplanned, withheld, plans)


def _with_older(ledger: Ledger, incarnation: str | None, plan: Document) -> WithheldPlan:
    """The object's contents before this one do not change any more, whatever is planned later."""
    key, own = source_id(plan["bucket"], plan["key"], ""), plan["source_id"]
    _, contents = newest_contents(ledger, incarnation, key) if incarnation else (0, ())
    ids = [one.source_id for one in contents]
    older = set(ids[: ids.index(own)] if own in ids else ids) - {own}
    name = f"s3://{plan['bucket']}/{plan['key']} version {plan['version_id'] or plan['etag']}"
    return WithheldPlan(plan["at"], f"{name} (load {plan['run_id']})", tuple(sorted(older)))


@dataclass(frozen=True)
class Exchanged:
    """Records of a quarantine that say that they are there on purpose. ``new``: (source id, whether withheld)
    -> number of those that came; ``withheld``: by how many more of a source are withheld now."""

    new: Counter[tuple[str, bool]]
    withheld: Counter[str]

    @classmethod
    def of(
        cls, table: Table, removed: Sequence[DataFile], added: Sequence[DataFile], known: OffsetSet
    ) -> Exchanged:
        """``known``: the offsets that were there before: a rewrite adds them again."""
        new, withheld = Counter[tuple[str, bool]](), Counter[str]()
        for sign, files in ((-1, removed), (1, added)):
            for partition, offset, source, is_withheld in _rows(table, files):
                withheld[source] += sign * is_withheld
                new[source, is_withheld] += sign > 0 and offset not in known[partition]
        return cls(+new, withheld)


def _rows(table: Table, data_files: Sequence[DataFile]) -> Iterable[tuple[int, int, str, bool]]:
    from pyiceberg.expressions import And, EqualTo, Or, StartsWith

    from sluice.clients.lake.reading import files
    from sluice.clients.lake.snapshots import table_diff

    chosen = And(EqualTo("stage", CONSUMER_STAGE), Or(*(StartsWith("reason", one) for one in ON_PURPOSE)))
    columns = (files.PARTITION, files.OFFSET, files.SOURCE, "reason")
    for batch in table_diff.read(table, data_files, chosen, columns):
        for partition, offset, source, reason in zip(
            *(batch[name].to_pylist() for name in columns), strict=True
        ):
            yield partition, offset, source or "", reason.startswith(WITHHELD)


def waiting(on_purpose: OnPurpose, reverted: Callable[[], Collection[str]], now: datetime) -> list[str]:
    """The versions that are withheld for more than WAITS, by their plans and the sources that changes have
    ``reverted``: asked for once, if any waits."""
    late = {
        source: plan
        for source, plan in on_purpose.plans.items()
        if now - datetime.fromisoformat(plan.at) > WAITS
    }
    gone = set(reverted()) if late else set[str]()
    return [
        f"{plan.name}: {on_purpose.withheld[source]} records"
        for source, plan in late.items()
        # A change took it out, or the older contents of its key: what is left are copies.
        if source not in gone and not (plan.older and gone.issuperset(plan.older))
    ]
