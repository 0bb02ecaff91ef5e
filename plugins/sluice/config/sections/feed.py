"""``[feed]`` of a ``stream.toml``: events of a server that cannot be asked again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

# Values of [feed.resume] position, beside the feed's own: new events only; the position that is saved.
LATEST, SAVED = "latest", "saved"
# Before the stream's name: the transactional id of its producer. No query's begins so, since no stream's name
# has a hyphen.
TRANSACTIONAL_IDS = "sluice-feed-"


@dataclass(frozen=True)
class FeedResume:
    """A person's decision about a feed whose position is unknown. ``finding``: the number that the error
    gave; for another one it does not hold. ``position``: LATEST, SAVED, or one of the feed's."""

    finding: Annotated[
        str,
        "the number of a finding whose [position is unknown](operating.md#position-of-the-feed-is-unknown)",
    ]
    position: Annotated[str, "from where a person decided to resume after it"]


@dataclass(frozen=True)
class Feed:
    """A feed of Server-Sent Events that a long-running producer reads, by its functions ``event`` and
    ``rewind`` (``spark_jobs.common.feed.event``)."""

    url: Annotated[str, "the feed's address; a platform file's `[feeds]` may replace it"]
    user_agent: Annotated[
        str,
        "the client and its contact; with an address at `example.…`, only a platform file's `[feeds]` is "
        "read",
    ]
    event_id: Annotated[str, "the table's column that is unique per event"]
    event: Annotated[str, "`module:function` of the folder: reads an event"]
    rewind: Annotated[
        str,
        "`module:function` of the folder: the position to resume from after a restart; without it the newest",
    ] = ""
    read_timeout_seconds: Annotated[int, "reconnect after N seconds without a byte"] = 30
    max_in_flight: Annotated[int, "maximum of sent, uncommitted events; twice as many ids are saved"] = 5_000
    lock_seconds: Annotated[
        int, "how long a starting producer waits until Kafka has fenced its predecessor"
    ] = 30
    keeps_hours: Annotated[
        int,
        "how long the server keeps events (0: unknown): after a longer silence the producer ends with "
        "[SLU-309](operating.md#position-of-the-feed-is-unknown) instead of resuming behind a gap",
    ] = 0
    has_positions: Annotated[
        bool,
        "false: the events have no ids, so each start begins with new events, and those in between are "
        "missing",
    ] = True
    allow_redirects_to: Annotated[
        list[str],
        "hosts to which the feed may redirect, besides its own; a name with other letters as its `xn--…` "
        "form; never from https to http",
    ] = field(default_factory=list)
    resume: FeedResume | None = None
