"""Which records are in quarantine on purpose: those that the ledger says were planned so.

A record's key says that it is withheld, or of which row it is a copy; but any producer may send such a key,
and the consumer asks no ledger. So the plan of each source is asked for once, when its first records come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sluice.core.offsets.quarantine import CONSUMER_STAGE, ON_PURPOSE, WITHHELD
from sluice.core.offsets.sources import source_id
from sluice.ledger.keys import planned_key
from sluice.loads.known.index import newest_contents
from sluice.loads.known.verified import VerifiedSources
from sluice.maintenance.reconciliation.verified_table import OnPurpose

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from sluice.clients.lake.catalog import Lake
    from sluice.core.json_record import Document
    from sluice.core.offsets.offset_set import OffsetSet
    from sluice.ledger.documents import Ledger

# A version that was loaded with `withhold` waits no longer than this for its replace unsaid.
WAITS = timedelta(hours=24)


def ask_for_plans(before: OnPurpose, ledger: Ledger, exchanged: Exchanged) -> OnPurpose:
    """``before`` with the ``exchanged`` records. A GET for each source of new records that is not known as
    withheld."""
    from sluice.clients.s3.requests import at_once

    names = sorted({source for source, _ in exchanged.new} - before.withheld.keys())
    found = dict(zip(names, at_once(names, lambda one: ledger.get(planned_key(one))), strict=True))
    planned = {source for source, document in found.items() if document is not None}
    to_withhold = {source for source in planned if (found[source] or {}).get("withheld")}
    known = before.withheld.keys() | planned, before.withheld.keys() | to_withhold
    unplanned = sum(
        n for (source, is_withheld), n in exchanged.new.items() if source not in known[is_withheld]
    )
    now = {source: before.withheld.get(source, 0) + exchanged.withheld[source] for source in known[True]}
    return OnPurpose(before.unplanned + unplanned, {source: n for source, n in sorted(now.items()) if n > 0})


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


def waiting(ledger: Ledger, lake: Lake, table: str, withheld: Mapping[str, int], now: datetime) -> list[str]:
    """The versions that are withheld for more than WAITS, by what their plans and the changes say."""
    verified = VerifiedSources(ledger, lake, table) if withheld else None
    found = []
    for source, count in withheld.items():
        plan = ledger.get(planned_key(source))
        if verified is None or plan is None or now - datetime.fromisoformat(plan["at"]) <= WAITS:
            continue
        if not _is_done(ledger, verified, plan):
            name = f"s3://{plan['bucket']}/{plan['key']} version {plan['version_id'] or plan['etag']}"
            found.append(f"{name} (load {plan['run_id']}): {count} records")
    return found


def _is_done(ledger: Ledger, verified: VerifiedSources, plan: Document) -> bool:
    """Whether a change took out the source, or the older contents of its key: what is left are copies."""
    if plan["source_id"] in verified.reverted:
        return True
    key = source_id(plan["bucket"], plan["key"], "")
    _, contents = newest_contents(ledger, verified.incarnation, key) if verified.incarnation else (0, ())
    ids, own = [one.source_id for one in contents], plan["source_id"]
    # A newer one may have been planned since.
    older = set(ids[: ids.index(own)] if own in ids else ids) - {own}
    return bool(older) and older <= verified.reverted
