"""Kafka: each broker's TLS and login, and the principal's own rights, as brokers tell them of themselves.

Rights on topics and groups are those that describing them tells (KIP-430). On a transactional id a producer
begins, under a name of the check's own, and writes no record. Those on the cluster are told only to who may
describe it; IdempotentWrite is there with Write on any topic (KIP-679). Some managed clusters describe
topics and groups, and tell no rights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection

from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.kafka.errors import MISSING_RIGHT, translated
from sluice.clients.kafka.login.noted import Answer
from sluice.clients.kafka.login.properties import librdkafka, login_remark
from sluice.clients.kafka.login.tokens import tokens
from sluice.config.platform_sections.kafka import AWS_MSK_IAM, OAUTHBEARER, Kafka
from sluice.connection_check.deadlines import ANSWER_SECONDS
from sluice.connection_check.probing import tls as handshakes
from sluice.connection_check.probing.tls import Tls
from sluice.connection_check.probing.web import ask_address, note_token
from sluice.connection_check.rights.kafka import (
    CLUSTER,
    CLUSTER_NAME,
    GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    Rule,
    kafka_user,
    of_msk,
    with_implied,
)
from sluice.connection_check.rows import PENDING, PLAIN_TEXT, Row, Span, compared, with_fix
from sluice.core.errors import ClientError, Refused
from sluice.core.messages import summarize

# In place of what the name of a group, or of a transactional id, leaves open.
NAME = "check-connections"
_BY_TOKEN = (OAUTHBEARER, AWS_MSK_IAM)
_ABSENT = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
Asked = list[tuple[str, bool, bool]]


class Unknown(Enum):
    """Why nothing is known of the rights on a topic or group: it does not exist, or its description has
    none."""

    ABSENT = "absent"
    NOT_TOLD = "not told"


Allowed = set[str] | Unknown


@dataclass(frozen=True)
class _Allowed:
    """The operations that are allowed on a topic or group, by its description: none to who may not describe
    it."""

    description: Answer[Any]

    def result(self, timeout: float) -> Allowed:
        try:
            found = self.description.result(timeout)
        except KafkaException as error:
            code = error.args[0].code()
            if code in MISSING_RIGHT:
                return set()
            if code in _ABSENT:
                return Unknown.ABSENT
            raise
        # Who may describe it has a right: a description without any does not tell them.
        return {one.name for one in found.authorized_operations or ()} or Unknown.NOT_TOLD


def login_of(kafka: Kafka) -> str:
    """The kind of login and its name."""
    if kafka.sasl_mechanism == OAUTHBEARER:
        return f"{OAUTHBEARER} {kafka.sasl_oauthbearer_client_id or kafka.token_file}"
    if kafka.sasl_mechanism == AWS_MSK_IAM:
        return f"{AWS_MSK_IAM} {kafka.aws_role_arn or 'of the process'}"
    if kafka.sasl_mechanism:
        return f"{kafka.sasl_mechanism} {kafka.username}"
    return "certificate" if kafka.ssl_certificate_location else "none"


def ask(kafka: Kafka, role: str, rules: Iterable[Rule], rows: list[Row]) -> None:
    """Fill the cluster's row, and add one for each broker. ``rules``: of all roles. Raises ClientError."""
    row = rows[0]
    tls = Tls.declared(kafka)
    handshakes.read_files(row, tls)
    url = kafka.sasl_oauthbearer_token_endpoint_url
    if url and not kafka.token_file:
        rows.append(Row(role, "kafka token endpoint", url, row.login, not_looked_at=PENDING))
        ask_address(url, Tls(kafka.https_ca_location), rows[-1:])
    if kafka.sasl_mechanism in _BY_TOKEN:
        token = tokens(kafka).current()
        if kafka.token_file:
            note_token(row, token.value, kafka.token_file)
        else:
            row.token, row.is_renewed = Span(*token.span()), True
    admin = KafkaAdmin(kafka, ANSWER_SECONDS)
    failure: ClientError | None = None
    names = [one.strip() for one in kafka.bootstrap_servers.split(",")]
    try:
        found = admin.results("brokers", lambda: {"": _cluster(admin)})[""]
        names += [f"{node.host}:{node.port}" for node in found.nodes]
    except ClientError as error:
        failure = error
    plain = "" if kafka.is_encrypted else PLAIN_TEXT
    brokers = [
        Row(role, "kafka broker", name, row.login, plain, not_looked_at=PENDING)
        for name in dict.fromkeys(names)
    ]
    rows += brokers
    with ThreadPoolExecutor(len(brokers)) as threads:
        list(threads.map(lambda broker: _ask_broker(broker, kafka, tls), brokers))
    mine = [rule for rule in rules if rule.user == kafka_user(role)]
    if not mine and isinstance(failure, Refused):
        # As role maintenance: its login may be none.
        row.remarks.append("Kafka does not let it in, and it needs nothing there")
        for broker in brokers:
            broker.remarks, broker.problems = [*broker.remarks, *broker.problems], []
    elif failure is None:
        _ask_rights(row, admin, kafka, mine, rules, found.authorized_operations)
    elif any(broker.problems for broker in brokers):
        row.problems.append("no broker told of rights. Fix: see its brokers")
    else:
        raise failure


def _cluster(admin: KafkaAdmin) -> Any:
    return admin.admin.describe_cluster(include_authorized_operations=True, request_timeout=ANSWER_SECONDS)


def _ask_broker(row: Row, kafka: Kafka, tls: Tls) -> None:
    ((host, port),) = handshakes.servers(row.address)
    if not kafka.is_encrypted or handshakes.look(row, host, port, tls):
        admin = KafkaAdmin(replace(kafka, bootstrap_servers=row.address), ANSWER_SECONDS)
        try:
            admin.results(f"broker {row.address}", lambda: {"": _cluster(admin)})
        except ClientError as error:
            row.problems.append(with_fix(error))
    row.not_looked_at = ""


def _ask_rights(
    row: Row,
    admin: KafkaAdmin,
    kafka: Kafka,
    mine: Sequence[Rule],
    rules: Iterable[Rule],
    on_cluster: Iterable[Any] | None,
) -> None:
    def needed(kind: str, name: str, *, optional: bool = False) -> set[str]:
        found = (rule for rule in mine if rule.is_on(kind, name) and (optional or not rule.is_optional))
        return with_implied(rule.operation for rule in found)

    asked: Asked = []
    unknown: dict[Unknown, list[str]] = {kind: [] for kind in Unknown}

    def compare(kind: str, name: str, there: Allowed) -> None:
        what = f"{kind.replace('_', ' ')} {name}"
        if isinstance(there, Unknown):
            unknown[there].append(what)
            return
        wanted = needed(kind, name)
        there = (there - needed(kind, name, optional=True)) | (there & wanted)
        asked.extend((f"{one} on {what}", one in wanted, one in there) for one in sorted(wanted | there))

    topics = dict.fromkeys(rule.name for rule in rules if rule.kind == TOPIC)
    for name, there in rights_on_topics(admin, list(topics)).items():
        compare(TOPIC, name, there)
    groups = dict.fromkeys(_sample(rule) for rule in rules if rule.kind == GROUP)
    for name, there in rights_on_groups(admin, list(groups)).items():
        compare(GROUP, name, there)
    ids = dict.fromkeys(_sample(rule) for rule in rules if rule.kind == TRANSACTIONAL_ID)
    needs_idempotence: list[bool] = []
    for name in ids:
        # A principal that may begin one may write and describe.
        wanted = needed(TRANSACTIONAL_ID, name)
        denied = _denied(kafka, name)
        if denied == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            # Asked after the right on the id, by clusters with KIP-360 and without KIP-679.
            needs_idempotence.append(bool(wanted))
        else:
            asked.append((f"WRITE on transactional id {name}", bool(wanted), denied is None))
    if needs_idempotence:
        asked.append(("IDEMPOTENT_WRITE on the cluster", any(needs_idempotence), False))
    if on_cluster:
        wanted = needed(CLUSTER, CLUSTER_NAME)
        if kafka.sasl_mechanism == AWS_MSK_IAM:
            wanted |= of_msk(row.role)
        there = {one.name for one in on_cluster} - wanted
        asked.extend((f"{one} on the cluster", False, True) for one in sorted(there))
    row.rights = compared(asked)
    if absent := unknown[Unknown.ABSENT]:
        row.remarks.append(f"rights are not asked on what does not exist yet: {summarize(absent, 8)}")
    if not_told := unknown[Unknown.NOT_TOLD]:
        row.remarks.append(f"its brokers describe, and tell no rights on, {summarize(not_told, 8)}")


def _sample(rule: Rule) -> str:
    return f"{rule.name.rstrip('-')}-{NAME}" if rule.prefixed else rule.name


def rights_on_topics(admin: KafkaAdmin, names: Sequence[str]) -> Mapping[str, Allowed]:
    """Topic -> the operations that are allowed. Raises ClientError."""

    def ask() -> Mapping[str, Answer[Allowed]]:
        found = admin.admin.describe_topics(
            TopicCollection(list(names)), include_authorized_operations=True, request_timeout=ANSWER_SECONDS
        )
        return {name: _Allowed(future) for name, future in found.items()}

    return admin.results("rights on topics", ask) if names else {}


def rights_on_groups(admin: KafkaAdmin, names: Sequence[str]) -> Mapping[str, Allowed]:
    """As :func:`rights_on_topics`, of groups, which need not exist."""

    def ask() -> Mapping[str, Answer[Allowed]]:
        found = admin.admin.describe_consumer_groups(
            list(names), include_authorized_operations=True, request_timeout=ANSWER_SECONDS
        )
        return {name: _Allowed(future) for name, future in found.items()}

    return admin.results("rights on groups", ask) if names else {}


def _denied(kafka: Kafka, name: str) -> int | None:
    """Kafka's code of the right that is missing to begin with this transactional id; None if none is. Kafka
    forgets an id that is not used."""
    producer = Producer({**librdkafka(kafka), "transactional.id": name, "error_cb": lambda _: None})
    try:
        producer.init_transactions(ANSWER_SECONDS)
    except KafkaException as error:
        code: int = error.args[0].code()
        if code in MISSING_RIGHT:
            return code
        raise translated(f"transactional id {name!r}", error, login_remark(kafka)) from error
    return None
