"""The plan of a load from a feed: what came onto the topic during the run, from a pinned beginning on.

A feed has no versions that two runs could share, so each run is a source of its own. Where it begins is
pinned before anything is sent: what an attempt sent that was killed lies behind it, and is proved with the
rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sluice.clients.errors import Refused
from sluice.clients.keys import Document, run_key
from sluice.hooks.plan import FEED, now, settle

if TYPE_CHECKING:
    from sluice.clients.ledger import Ledger
    from sluice.hooks.plan import EndOffsets
    from sluice.model.feeding import Fed


def source_id(run_id: str) -> str:
    """Of the run's one source, in the ledger of its stream."""
    return f"feed-{hashlib.sha256(run_id.encode()).hexdigest()[:16]}"


def pin(
    ledger: Ledger,
    kafka: EndOffsets,
    *,
    run_id: str,
    stream: str,
    topic: str,
    feed: str,
    params: Mapping[str, Any],
) -> Document:
    """The run's plan: the one in the ledger, or a new one that begins where the topic ends now.

    ``feed``: the address, for whoever reads the plan. Raises Refused where the plan is for another topic.
    """
    plan = ledger.get(run_key(run_id, "plan"))
    if plan is None:
        source = {
            "source_id": source_id(run_id),
            "kind": FEED,
            "feed": feed,
            "topic": topic,
            "begin": {str(partition): offset for partition, offset in sorted(kafka.ends(topic).items())},
        }
        plan = ledger.put(
            run_key(run_id, "plan"),
            {
                "run_id": run_id,
                "stream": stream,
                "topic": topic,
                "params": dict(params),
                "sources": [source],
                "at": now(),
            },
        )
    if plan["topic"] != topic:
        raise Refused(
            f"run {run_id!r} was planned for topic {plan['topic']!r} and the stream's is {topic!r} now; "
            "trigger a new run"
        )
    return plan


def finish(ledger: Ledger, source: Document, fed: Fed, ends: Mapping[int, int], run_id: str) -> Document:
    """Record what the producer's run came to. ``ends``: where the topic ends now, asked after the run.

    From the pinned beginning on, however late the run that ended well began. A partition that was added
    meanwhile counts from its first offset. Raises Refused where the producer's offsets and the topic's do not
    fit together.
    """
    begin = {int(partition): offset for partition, offset in source["begin"].items()}
    for partition, end in sorted(fed.ends.items()):
        if ends.get(partition, 0) < end:
            raise Refused(
                f"topic {source['topic']!r} partition {partition} ends at {ends.get(partition, 0)}, and the "
                f"producer says that it sent up to {end}: the topic was made anew; trigger a new run"
            )
    whole = {**source, "begin": {str(p): begin.get(p, 0) for p in sorted({*begin, *fed.ends})}}
    return settle(ledger, whole, fed.ends, run_id, counts=fed.counts())
