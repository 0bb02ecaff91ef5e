"""A replay server: recorded events of Wikimedia's EventStreams as a live feed, with faults on demand.

In a test:

    with Replay(rate=0, total=20_000) as replay:
        replay.url                      # http://127.0.0.1:<port>/v2/stream/recentchange
        replay.break_it(cut_every=500)  # what must not matter
        replay.feed.event_id(17)        # what the client must have got

As a program: `python -m local.replay --port 18081 --rate 50`.
"""

from __future__ import annotations

from local.replay.faults import Faults
from local.replay.feed import Feed
from local.replay.server import Asked, Replay

__all__ = ["Asked", "Faults", "Feed", "Replay"]
