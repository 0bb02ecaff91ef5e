"""One right of a user of Kafka."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """One right of a Kafka `user`, as `sluice-consumer`. `kind`: topic, group, transactional_id or broker
    (the cluster). `name`: the resource's; if `prefixed`, the right is for all whose names begin with it.
    `operation`: Kafka's word, as DESCRIBE_CONFIGS."""

    user: str
    kind: str
    name: str
    prefixed: bool
    operation: str
