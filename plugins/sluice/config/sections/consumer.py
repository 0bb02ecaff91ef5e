"""``[consumer]`` and ``[budget]`` of a ``stream.toml``: what a micro-batch takes, and what it may cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True)
class Consumer:
    trigger_seconds: Annotated[int, "seconds between micro-batches"] = 5
    max_offsets_per_trigger: Annotated[int, "records in one micro-batch at most"] = 3_000_000
    by_reference: Annotated[
        bool,
        "decode each record by the reference alone, many times slower: after `SLU-409`, until it is fixed",
    ] = False


@dataclass(frozen=True)
class Budget:
    """Cost of one micro-batch in the bucket."""

    versions_per_batch: Annotated[int, "`audit` fails above it"]
    s3_calls_per_batch: Annotated[
        int,
        "documentation only, except in this repository's tests: S3 does not report calls to a client, so "
        "`audit` cannot measure them",
    ] = 0
    delete_markers: Annotated[int, "`audit` fails if the objects written since a load began have more"] = 0
