"""The roles' rights on Kafka's topics, groups and transactional ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sluice.config.sections.feed import TRANSACTIONAL_IDS
from sluice.config.sections.topic import POSITIONS_TOPIC, PROGRESS_TOPIC

TOPIC, GROUP, TRANSACTIONAL_ID, CLUSTER = "topic", "group", "transactional_id", "broker"
CLUSTER_NAME = "kafka-cluster"
# What Strimzi's topic operator does instead of role `airflow`.
OPERATORS = frozenset({"CREATE", "ALTER", "ALTER_CONFIGS"})
# Kafka's own: who may do the first may do the second.
_IMPLIED = {
    "READ": "DESCRIBE",
    "WRITE": "DESCRIBE",
    "DELETE": "DESCRIBE",
    "ALTER": "DESCRIBE",
    "ALTER_CONFIGS": "DESCRIBE_CONFIGS",
}


@dataclass(frozen=True)
class Rule:
    """One right of a Kafka user."""

    user: str
    """As `sluice-consumer`."""
    kind: str
    """TOPIC, GROUP, TRANSACTIONAL_ID or CLUSTER."""
    name: str
    """The resource's."""
    prefixed: bool
    """Whether the right is for all resources whose names begin with it."""
    operation: str
    """Kafka's word, as DESCRIBE_CONFIGS."""
    is_optional: bool = field(default=False, compare=False)
    """Whether everything goes on without it."""

    def is_on(self, kind: str, name: str) -> bool:
        """Whether the right is for this resource."""
        return self.kind == kind and (name.startswith(self.name) if self.prefixed else name == self.name)


def kafka_user(role: str) -> str:
    """The role's user in the embedded stack."""
    return f"sluice-{role}"


def kafka_rules(
    topics: Iterable[str], results: Iterable[str] = (), others: Mapping[str, str] | None = None
) -> list[Rule]:
    """The rights of the roles on the streams' topics and their queries' ``results``; the rest is denied.

    ``others``: topics that others fill, which are read only -> the consumer group that a stream begins at, or
    "".
    """
    rules: list[Rule] = []

    def allow(
        role: str, kind: str, name: str, operations: str, prefixed: bool = False, is_optional: bool = False
    ) -> None:
        rules.extend(
            Rule(kafka_user(role), kind, name, prefixed, operation, is_optional)
            for operation in operations.split()
        )

    # Two streams may read one topic, and Kafka refuses a right that is asked for twice.
    own = dict.fromkeys(topics)
    for topic in own:
        # Airflow asks whether offsets that the consumer recorded as without a record have none.
        allow("airflow", TOPIC, topic, "CREATE ALTER DESCRIBE ALTER_CONFIGS DESCRIBE_CONFIGS READ")
        allow("producer", TOPIC, topic, "WRITE DESCRIBE READ")
        allow("consumer", TOPIC, topic, "READ DESCRIBE")
        allow("observer", TOPIC, topic, "DESCRIBE DESCRIBE_CONFIGS")
        allow("reader", TOPIC, topic, "READ DESCRIBE")
    for topic, group in (others or {}).items():
        if topic in own:
            continue
        allow("airflow", TOPIC, topic, "DESCRIBE DESCRIBE_CONFIGS READ")
        # Whether compaction explains what is absent.
        allow("consumer", TOPIC, topic, "READ DESCRIBE DESCRIBE_CONFIGS")
        # Kafka names the producer of an open transaction to who may read.
        allow("observer", TOPIC, topic, "DESCRIBE DESCRIBE_CONFIGS READ")
        allow("reader", TOPIC, topic, "READ DESCRIBE")
        if group:
            allow("consumer", GROUP, group, "DESCRIBE")
    for topic in dict.fromkeys(results):
        # Airflow checks their content. Setting a group's offsets requires Read on the topic.
        allow("airflow", TOPIC, topic, "CREATE ALTER DESCRIBE ALTER_CONFIGS DESCRIBE_CONFIGS READ")
        allow("consumer", TOPIC, topic, "WRITE DESCRIBE READ")
        allow("reader", TOPIC, topic, "READ DESCRIBE")
    progress = PROGRESS_TOPIC.name
    allow("airflow", TOPIC, progress, "CREATE ALTER DESCRIBE ALTER_CONFIGS DESCRIBE_CONFIGS READ")
    allow("consumer", TOPIC, progress, "WRITE DESCRIBE")
    allow("reader", TOPIC, progress, "READ DESCRIBE")
    positions = POSITIONS_TOPIC.name
    allow("airflow", TOPIC, positions, "CREATE ALTER DESCRIBE ALTER_CONFIGS DESCRIBE_CONFIGS READ")
    allow("producer", TOPIC, positions, "WRITE DESCRIBE READ")
    allow("consumer", TRANSACTIONAL_ID, "sluice-", "WRITE DESCRIBE", prefixed=True)
    allow("producer", TRANSACTIONAL_ID, TRANSACTIONAL_IDS, "WRITE DESCRIBE", prefixed=True)
    for role in ("airflow", "observer"):
        allow(role, GROUP, "sluice-", "DESCRIBE", prefixed=True)
    allow("producer", CLUSTER, CLUSTER_NAME, "IDEMPOTENT_WRITE")
    for role in ("producer", "consumer", "reader"):
        # Spark makes its own group names under its prefix, for streams (-source) and for batches (-relation).
        allow(role, GROUP, "spark-kafka-", "READ DESCRIBE", prefixed=True)
    allow("producer", GROUP, "sluice-", "READ DESCRIBE", prefixed=True)
    allow("consumer", GROUP, "sluice-", "READ DESCRIBE", prefixed=True)
    # librdkafka looks for the coordinator of a group that it is no member of; brokers log it if it may not.
    allow("reader", GROUP, "sluice-reader", "READ DESCRIBE", prefixed=True, is_optional=True)
    return rules


def of_msk(role: str) -> set[str]:
    """What IAM on Amazon MSK gives the role on the cluster beside its rules, since it asks for more there:
    DescribeCluster to connect, and WriteDataIdempotently for transactions."""
    return {"DESCRIBE", *(["IDEMPOTENT_WRITE"] if role in ("producer", "consumer") else [])}


def is_operators(rule: Rule) -> bool:
    """Whether Strimzi's topic operator does it, where it manages topics."""
    return rule.kind == TOPIC and rule.operation in OPERATORS


def with_implied(operations: Iterable[str]) -> set[str]:
    """The operations, and those that Kafka allows with them."""
    found = set(operations)
    return found | {_IMPLIED[one] for one in found if one in _IMPLIED}
