"""Read the positions of a stream's systems, compare them, and record the table's for later runs."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sluice.core.findings import Earlier, Observed, Proof, findings
from sluice.core.tables.known_tables import TableState
from sluice.ledger.keys import OBSERVED, PROOF
from sluice.maintenance.reconciliation.report import (
    NOTHING,
    ONCE,
    check_findings,
    no_position,
    table_findings,
)

if TYPE_CHECKING:
    from sluice.clients.lake.catalog import Position
    from sluice.config.stream import StreamSpec
    from sluice.core.json_record import Document
    from sluice.ledger.history import History
    from sluice.ledger.known_tables import KnownTables
    from sluice.ledger.marks import LedgerMarks
    from sluice.systems import Systems

log = logging.getLogger(__name__)

# What runs of so many seconds read is compared.
EARLIER_SECONDS = 26 * 3600.0


def reconcile_positions(
    systems: Systems, spec: StreamSpec, tables: KnownTables, marks: LedgerMarks, now: datetime
) -> dict[str, Any]:
    """Compare the offsets of the group, the table and the broker, and the table's with earlier runs'. Raises
    Refused with the findings. ``marks``: each run leaves one, so that a ledger that was restored is found
    also while nothing is verified."""
    history, what = systems.history(spec.name), f"offsets of {spec.table}"
    # Task verify_table says what the ledger does not know.
    unlike = [one for one in table_findings(tables, spec.table) if one.name not in ONCE]
    check_findings(log, unlike, what)
    # Before the topic is asked, which a stream that never ran may not have.
    if tables.state(spec.table) is TableState.NEW:
        log.info("%s: %s", spec.table, NOTHING)
        return {"result": NOTHING}
    observed, position, uuid = _observe(systems, spec, history, now)
    ends = {str(partition): end for partition, end in sorted(position.ends.items())}
    # Findings too: what an earlier run saw is compared for a day, or until the table ends there again.
    about = {"table": spec.table, "table_uuid": uuid}
    key = history.record_run(OBSERVED, {**about, "ends": ends, "topic_id": position.topic_id}, now)
    # Not over one that is lost: task verify_table tells it.
    marks.leave(OBSERVED, key)
    check_findings(log, findings(observed), what)
    return {"result": f"offsets agree: the table ends at {ends}"}


def _observe(
    systems: Systems, spec: StreamSpec, history: History, now: datetime
) -> tuple[Observed, Position, str]:
    """The positions, the table's, and the table's UUID."""
    lake, kafka, topic = systems.lake, systems.kafka, spec.topic.name
    described = kafka.describe(topic)
    # What is behind first: see sluice.core.findings.
    proof = history.latest(PROOF)
    group = kafka.group_offsets(f"sluice-{spec.name}", topic, described.partitions)
    begins = kafka.begins(topic, described.partitions)
    position, uuid = lake.position(spec.table), lake.table_uuid(spec.table)
    if position is None:
        check_findings(log, [no_position(spec.table)], f"offsets of {spec.table}")
        raise RuntimeError(f"{spec.table}: no position, and no finding")
    observed = Observed(
        group,
        begins,
        position.ends,
        position.topic_id,
        described.id,
        kafka.ends(topic),
        _earlier(history, now, position.topic_id, uuid),
        history.suspended() is not None,
        _proof(proof, uuid),
    )
    return observed, position, uuid


def _proof(document: Document | None, uuid: str) -> Proof | None:
    """None also if it is of an earlier table: the stream was given a new one."""
    if document is None or document.get("table_uuid", uuid) != uuid:
        return None
    return Proof(document["run_id"], {int(p): end for p, end in document["ends"].items()})


def _earlier(history: History, now: datetime, topic_id: str | None, uuid: str) -> tuple[Earlier, ...]:
    """The newest run's ends, and the newest ones since which the group's are due, of the same topic and
    table."""
    found: list[Document] = history.since(OBSERVED, now - timedelta(seconds=EARLIER_SECONDS))
    return tuple(
        Earlier(
            (now - datetime.fromisoformat(document["at"])).total_seconds(),
            {int(partition): end for partition, end in document["ends"].items()},
        )
        for document in found[::-1]
        if (document["topic_id"], document.get("table_uuid", uuid)) == (topic_id, uuid)
    )
