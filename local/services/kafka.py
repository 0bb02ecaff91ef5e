"""Kafka in KRaft mode: nodes that are broker and controller in one, with logins and ACLs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from local.base import UnhealthyService
from local.runtime.context import Context, with_parent
from local.runtime.home import write_files
from local.runtime.supervisord import Program
from sluice.clients.kafka.login.properties import librdkafka
from sluice.config.platform import ROLES
from sluice.config.platform_sections.kafka import Kafka
from sluice.connection_check.rights.kafka import kafka_rules, kafka_user

BROKER, ADMIN = "sluice-broker", "sluice-admin"

_LOG4J = """\
status = warn
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSSX}{UTC} %p %c{1}: %m%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
logger.config.name = org.apache.kafka.common.config.AbstractConfig
logger.config.level = warn
logger.server.name = kafka.server.KafkaConfig
logger.server.level = warn
"""


def server_properties(context: Context) -> str:
    """The broker's configuration, passwords included: only for a file of mode 600."""
    users = {BROKER: context.secrets["kafka_broker"], ADMIN: context.secrets["kafka_admin"]}
    users |= {kafka_user(role): context.secrets[f"kafka_{role}"] for role in ROLES}
    logins = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    jaas = f'{module} username="{BROKER}" password="{users[BROKER]}" {logins};'
    network, controller = context.network, context.ports["kafka_controller"]
    replicas = min(3, len(network.nodes))
    voters = (f"{number}@{host}:{controller}" for number, host in enumerate(network.nodes, start=1))
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(network.node),
        "controller.quorum.voters": ",".join(voters),
        "listeners": f"CLIENT://{network.listener('kafka')},CONTROLLER://{network.listener('kafka_controller')}",
        "advertised.listeners": f"CLIENT://{network.nodes[network.node - 1]}:{context.ports['kafka']}",
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "CLIENT",
        "controller.listener.names": "CONTROLLER",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": jaas,
        "listener.name.controller.plain.sasl.jaas.config": jaas,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        "super.users": f"User:{BROKER};User:{ADMIN}",
        "auto.create.topics.enable": "false",
        "log.dirs": str(context.home.data / "kafka"),
        "num.network.threads": "2",
        "num.io.threads": "4",
        "default.replication.factor": str(replicas),
        # A record that one of three nodes lost is still there, and producing goes on with two.
        "min.insync.replicas": str(max(1, replicas - 1)),
        "offsets.topic.replication.factor": str(replicas),
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(max(1, replicas - 1)),
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(max(1, replicas - 1)),
        "group.initial.rebalance.delay.ms": "0",
    }
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def _conf(context: Context) -> str:
    return str(context.home.conf / "kafka" / "server.properties")


def _java(context: Context, heap: str, *main: str) -> list[str]:
    log4j = context.home.conf / "kafka" / "log4j2.properties"
    options = ["-XX:+UseG1GC", "-Djava.awt.headless=true", f"-Dlog4j2.configurationFile={log4j}"]
    options += context.java_options.split()
    return [str(context.java), heap, *options, "-cp", f"{context.kafka_jars}/*", *main]


def files(context: Context) -> dict[Path, str]:
    """Its configuration."""
    folder = context.home.conf / "kafka"
    return {
        folder / "log4j2.properties": _LOG4J,
        folder / "server.properties": server_properties(context),
    }


def formatted(context: Context) -> Path:
    """The file that its storage has when it is formatted."""
    return context.home.data / "kafka" / "meta.properties"


def formatting(context: Context) -> list[str]:
    """The command that formats its storage."""
    return _java(
        context,
        "-Xmx128m",
        "kafka.tools.StorageTool",
        *("format", "--ignore-formatted", "--cluster-id", context.secrets["kafka_cluster"]),
        *("--config", _conf(context)),
    )


def prepare(context: Context) -> None:
    """Write its configuration and format its storage once, before Kafka starts. Raises UnhealthyService."""
    write_files(files(context))
    if formatted(context).exists():
        return
    result = subprocess.run(
        formatting(context),
        capture_output=True,
        text=True,
        env={"PATH": os.environ.get("PATH", "/usr/bin:/bin")},
    )
    if result.returncode != 0:
        raise UnhealthyService(
            f"formatting Kafka's storage ended with {result.returncode}: "
            f"{' '.join((result.stdout + result.stderr).split())[-500:]}"
        )


def program(context: Context) -> Program:
    command = with_parent(*_java(context, "-Xmx512m", "kafka.Kafka", _conf(context)))
    return Program("kafka", command, context.environment(), priority=20, directory=context.home.root)


def admin_config(context: Context) -> dict[str, Any]:
    """librdkafka's configuration for the superuser; for set-up and tests only."""
    password = context.secrets["kafka_admin"]
    return librdkafka(Kafka(context.network.bootstrap_servers, "SASL_PLAINTEXT", "PLAIN", ADMIN, password))


def _admin(context: Context) -> AdminClient:
    # Without librdkafka's log of failed connections: every call here raises its own error.
    quiet: dict[str, Any] = {"log_level": "0", "error_cb": lambda _: None}
    return AdminClient({**admin_config(context), **quiet})


def probe(context: Context) -> str:
    """Read the cluster's metadata. Raises KafkaException if the broker does not answer in 3 s."""
    metadata = _admin(context).list_topics(timeout=3)
    return f"{len(metadata.brokers)} broker, {len(metadata.topics)} topics"


def topics(context: Context) -> set[str]:
    """The names of all topics. Raises KafkaException if the broker does not answer in 10 s."""
    return set(_admin(context).list_topics(timeout=10).topics)


def provision(
    context: Context,
    topics: Iterable[str],
    results: Iterable[str] = (),
    others: Mapping[str, str] | None = None,
) -> None:
    """Create the users' ACLs on the streams' topics, on their queries' `results`, and on topics of `others`;
    idempotent.

    Raises KafkaException if the broker refuses one.
    """
    bindings = [
        AclBinding(
            ResourceType[rule.kind.upper()],
            rule.name,
            ResourcePatternType.PREFIXED if rule.prefixed else ResourcePatternType.LITERAL,
            f"User:{rule.user}",
            "*",
            AclOperation[rule.operation],
            AclPermissionType.ALLOW,
        )
        for rule in kafka_rules(topics, results, others)
    ]
    # By a name: the futures of a client without one end with it.
    admin = _admin(context)
    for future in admin.create_acls(bindings, request_timeout=20).values():
        future.result()
