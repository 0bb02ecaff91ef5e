"""Sources that are sent in part: what of them may go on, and the way on for what may not.

Their rows on the topic are published, and no load has verified them. So no other version of an object is sent
beside them: it is withheld, and action replace of a change takes them out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sluice.config.sending_rules import SendingRules, changed_message
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.json_record import Document
from sluice.ledger.keys import planned_key
from sluice.loads import sources
from sluice.loads.known.contents import Known
from sluice.loads.sources.base import Source
from sluice.loads.sources.csv_object import ObjectSource

if TYPE_CHECKING:
    from sluice.loads.known.index import Found, ObjectContents

NAMED = 3


def way_on(stream: str, key: str) -> str:
    """How a corrected version of an object takes the place of what was sent of an older one."""
    return (
        f"trigger {stream}_load with objects={key} and withhold, then {stream}_change with action=replace "
        f"and object={key}: the rows of the older version go"
    )


def unsent(plan: Document) -> list[Source]:
    """The plan's sources of which a row may be left to send."""
    return [source for source in sources.read_all(plan["sources"]) if not source.is_sent]


def check_rules(plan: Document, rules: SendingRules, stream: str) -> None:
    """Raises Refused if a source of the plan that may be sent in part was planned by other rules."""
    for source in unsent(plan):
        if differences := rules.differences(source.document.get("rules")):
            revert = f"trigger {stream}_change with action=revert and load={source.run_id}"
            instead = f"{revert}, {source.send_by_other_rules(stream)}"
            message = changed_message(source.name, differences, instead)
            raise Refused(message, ErrorCode.RULES_CHANGED)


def check_resumed(contents: ObjectContents, plan: Document) -> None:
    """Raises Refused for a plan with an object that is not to be sent any more: a change took its rows out,
    or other content of it was planned since. A LIST and two GETs for each object."""
    from sluice.clients.s3.requests import at_once

    objects = [source for source in unsent(plan) if isinstance(source, ObjectSource)]
    for source in objects:
        if source.source_id in contents.verified.reverted:
            raise Refused(
                f"{source.name}: a change took the rows of version {source.document['version_id']} out "
                "since it was planned; nothing was sent. Fix: trigger a new run",
                ErrorCode.SENT_IN_PART,
            )
    for source, later in zip(objects, at_once(objects, lambda one: _later(contents, one)), strict=True):
        if later is not None:
            raise Refused(
                f"{source.name}: {later} since version {source.document['version_id']} was planned; nothing "
                "was sent. Fix: trigger a new run",
                ErrorCode.SENT_IN_PART,
            )


def _later(contents: ObjectContents, source: ObjectSource) -> str | None:
    """What is to be published of an object after this version of it was planned. A content without a plan
    counts: its run may be planning, and has looked for this version's plan before there was one."""
    found = contents.look_up(source.version)
    own = [number for number, one in enumerate(found.indexed) if one.source_id == source.source_id]
    others = {*found.others, *found.unplanned}
    for later in found.indexed[own[-1] + 1 :] if own else ():
        planned = contents.ledger.get(planned_key(later.source_id)) if later in others else None
        if planned is not None and not planned.get("withheld"):
            return f"run {planned['run_id']!r} loads version {later.version_id or later.etag}"
        if planned is None and later in others:
            return f"another run began to plan version {later.version_id or later.etag}"
    return None


def check_others(
    contents: ObjectContents, found: Sequence[Found], ends: Callable[[], Mapping[int, int]]
) -> None:
    """Raises Refused for an object of which other content may be sent in part: the rows of both would be
    published. ``ends``: the topic's end offsets; as long as they are those of a plan, nothing of it is sent.
    """
    from sluice.clients.s3.requests import at_once

    changed = [(one.version, other) for one in found if one.known is Known.CHANGED for other in one.others]
    sent = at_once([other for _, other in changed], contents.sent)
    for (newest, other), (planned, is_sent) in zip(changed, sent, strict=True):
        if planned is None or is_sent or not _sent(sources.read(planned), ends()):
            continue
        fix = way_on(contents.ledger.stream, newest.key)
        raise Refused(
            f"{newest.uri}: run {planned['run_id']!r} planned its version "
            f"{other.version_id or other.etag} and did not send it to its end, so rows of it may be "
            f"published without a proof, and those of version {newest.version_id or newest.etag} "
            f"would come beside them; nothing was sent. Fix: {fix}",
            ErrorCode.SENT_IN_PART,
        )


def failure_hint(plan: Document, ends: Mapping[int, int] | None, stream: str) -> str:
    """What follows the message of a failed job: its sources, whether they may be sent in part, and the way
    on. ``ends``: the topic's end offsets, None if they are not known."""
    left = unsent(plan)
    records = None if ends is None else max((_sent(source, ends) for source in left), default=0)
    names = ", ".join(source.name for source in left[:NAMED])
    more = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
    if records == 0:
        return f". Nothing was sent of {names}{more}"
    count = "an unknown number of" if records is None else records
    hint = (
        f". May be sent in part: {names}{more}; {count} records of any source came to the topic since the "
        "plan, and no load has verified those of these. Fix: clear produce, which sends the rest"
    )
    keys = [source.key for source in left if isinstance(source, ObjectSource)]
    if not keys:
        return hint
    one = keys[0] if len(keys) == 1 else "<its key>"
    return f"{hint}; for a file that has to be corrected, upload it and {way_on(stream, one)}"


def _sent(planned: Source, ends: Mapping[int, int]) -> int:
    """How many records, of whatever source, came to the topic since the source was planned."""
    starts = planned.start_offsets
    return sum(max(end - starts.get(partition, 0), 0) for partition, end in ends.items())
