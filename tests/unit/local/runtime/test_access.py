"""Least privilege, asked the other way round: what must not be allowed."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import pytest

from local.runtime.roles import s3_policies
from sluice.config.platform import ROLES
from sluice.config.sections.feed import TRANSACTIONAL_IDS
from sluice.config.sections.topic import POSITIONS_TOPIC, PROGRESS_TOPIC
from sluice.connection_check.rights.kafka import kafka_rules
from sluice.core.queries import committed_batch

TOPIC = "nyc-avro-topic"


def may(role: str, action: str, resource: str) -> bool:
    return any(
        action in statement["Action"]
        and any(fnmatchcase(f"arn:aws:s3:::{resource}", pattern) for pattern in statement["Resource"])
        for statement in s3_policies()[role]["Statement"]
    )


@pytest.mark.parametrize("role", ROLES)
def test_only_maintenance_may_delete_and_no_role_may_do_everything(role: str) -> None:
    actions = [action for statement in s3_policies()[role]["Statement"] for action in statement["Action"]]
    assert not [action for action in actions if "*" in action]
    deletes = [action for action in actions if "Delete" in action]
    # Not a version: what it deletes can be restored.
    assert set(deletes) == ({"s3:DeleteObject"} if role == "maintenance" else set())
    if role == "maintenance":
        # What is kept of documents that it deletes, and nothing else.
        others = [one for one in s3_policies()[role]["Statement"] if "s3:DeleteObject" not in one["Action"]]
        assert {action for one in others for action in one["Action"]} == {"s3:GetObject", "s3:PutObject"}
        assert all("/batches/rolled-up/*" in name for one in others for name in one["Resource"])


@pytest.mark.parametrize(
    ("key", "allowed"),
    [
        ("warehouse/lake/raw/x/data/day=2026-01-01/a.parquet", True),
        ("warehouse/lake/raw/x/metadata/a.avro", True),
        ("warehouse/lake/raw/x/loaded/0123456789abcdef/w1_a-1.json", False),
        ("warehouse/lake/raw/x/batches/published/1-1-w1_a.json", True),
        ("warehouse/lake/raw/x/batches/rolled-up/1.json", True),
        ("warehouse/lake/raw/x/batches/restored/1.json", False),
        ("warehouse/ledger/x/runs/r/proof.json", False),
        ("warehouse/files/x/a.parquet", False),
        ("source/x/data/a.csv", False),
    ],
)
def test_what_maintenance_may_delete(key: str, allowed: bool) -> None:
    assert may("maintenance", "s3:DeleteObject", key) is allowed


@pytest.mark.parametrize(
    ("key", "writers", "readers"),
    [
        (
            "warehouse/lake/raw/x.parquet",
            {"producer", "consumer"},
            {"airflow", "producer", "consumer", "reader", "observer"},
        ),
        (
            "warehouse/lake/raw/x/batches/rolled-up/1.json",
            {"producer", "consumer", "maintenance"},
            {"airflow", "producer", "consumer", "reader", "observer", "maintenance"},
        ),
        ("warehouse/ledger/nyc_taxi/x.json", {"airflow"}, {"airflow", "producer", "observer"}),
        (
            "warehouse/ledger/_registries/0123456789abcdef/schemas/7.json",
            {"airflow", "producer", "consumer"},
            {"airflow", "producer", "consumer", "observer"},
        ),
        ("source/nyc_taxi/x.csv", set(), {"airflow", "producer"}),
        ("warehouse/other", set(), {"airflow"}),
    ],
)
def test_who_writes_and_reads_what(key: str, writers: set[str], readers: set[str]) -> None:
    assert {role for role in ROLES if may(role, "s3:PutObject", key)} == writers
    assert {role for role in ROLES if may(role, "s3:GetObject", key)} == readers


def test_only_airflow_sees_versions() -> None:
    assert {role for role in ROLES if may(role, "s3:ListBucketVersions", "warehouse")} == {"airflow"}


def operations(role: str, kind: str, name: str, results: Sequence[str] = ()) -> set[str]:
    return {
        rule.operation
        for rule in kafka_rules([TOPIC], results)
        if rule.user == f"sluice-{role}"
        and rule.kind == kind
        and (name.startswith(rule.name) if rule.prefixed else name == rule.name)
    }


def test_two_streams_of_one_topic_ask_for_each_right_once() -> None:
    rules = kafka_rules([TOPIC, TOPIC], ["results", "results"])
    assert rules == kafka_rules([TOPIC], ["results"])
    assert len(rules) == len(set(rules))


def test_kafka() -> None:
    writers = {role for role in ROLES if "WRITE" in operations(role, "topic", TOPIC)}
    makers = {role for role in ROLES if "CREATE" in operations(role, "topic", TOPIC)}
    deleters = {role for role in ROLES if "DELETE" in operations(role, "topic", TOPIC)}
    assert (writers, makers, deleters) == ({"producer"}, {"airflow"}, set())
    assert not any(operations(role, "topic", "someone-elses") for role in ROLES)
    assert "READ" in operations("consumer", "group", "spark-kafka-source-1")
    assert "READ" not in operations("reader", "group", "sluice-nyc_taxi")


@pytest.mark.parametrize(
    ("role", "group"),
    [
        ("producer", "sluice-wiki_changes-producer"),
        ("consumer", "sluice-wiki_changes-queries"),
        ("consumer", "sluice-nyc_taxi"),
    ],
)
def test_heartbeats_are_given_by_their_part_s_role_and_only_seen_by_airflow(role: str, group: str) -> None:
    # Setting a group's offsets wants Read on the group, and Read on the topic.
    assert "READ" in operations(role, "group", group)
    assert "READ" in operations(role, "topic", TOPIC)
    assert operations("airflow", "group", group) == {"DESCRIBE"}
    assert "READ" not in operations("reader", "group", group)


def test_results_tables_are_the_consumer_s_to_write_and_everybody_s_to_read() -> None:
    key = "warehouse/lake/results/wiki_changes_editors/data/x.parquet"
    assert may("consumer", "s3:PutObject", key)
    assert all(may(role, "s3:GetObject", key) for role in ("airflow", "consumer", "reader"))
    assert not may("airflow", "s3:PutObject", key)


RESULT = "isp_hits-zipcodes"
MAKES = {"CREATE", "ALTER", "DESCRIBE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS", "READ"}


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        # It provisions the topic, and reads it for validations.
        ("airflow", MAKES),
        # Setting the group's offsets, which are the mark, wants Read on the topic.
        ("consumer", {"WRITE", "DESCRIBE", "READ"}),
        ("reader", {"READ", "DESCRIBE"}),
        ("producer", set()),
    ],
)
def test_only_the_consumer_writes_to_a_topic_of_results(role: str, allowed: set[str]) -> None:
    assert operations(role, "topic", RESULT, results=[RESULT]) == allowed
    assert operations(role, "topic", RESULT) == set(), "what is not named is allowed to no role"


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("airflow", MAKES),
        ("consumer", {"WRITE", "DESCRIBE"}),
        ("reader", {"READ", "DESCRIBE"}),
        ("producer", set()),
    ],
)
def test_only_the_consumer_writes_progress(role: str, allowed: set[str]) -> None:
    assert operations(role, "topic", PROGRESS_TOPIC.name) == allowed


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("airflow", MAKES),
        ("producer", {"WRITE", "DESCRIBE", "READ"}),
        ("consumer", set()),
        ("reader", set()),
        ("observer", set()),
    ],
)
def test_only_the_producer_writes_positions_of_feeds(role: str, allowed: set[str]) -> None:
    assert operations(role, "topic", POSITIONS_TOPIC.name) == allowed


def test_the_streams_topics_stay_the_producer_s_where_there_are_results() -> None:
    writers = {role for role in ROLES if "WRITE" in operations(role, "topic", TOPIC, results=[RESULT])}
    assert writers == {"producer"}


def test_only_the_consumer_may_fence_the_one_writer_of_a_topic() -> None:
    writer = committed_batch.transactional_id("isp_hits", "zipcodes", RESULT)
    for role in ROLES:
        allowed = operations(role, "transactional_id", writer)
        assert allowed == ({"WRITE", "DESCRIBE"} if role == "consumer" else set())
        assert operations(role, "transactional_id", "someone-elses") == set()


def test_only_a_feed_s_producer_fences_its_predecessor() -> None:
    writer = f"{TRANSACTIONAL_IDS}wiki_changes"
    assert operations("producer", "transactional_id", writer) == {"WRITE", "DESCRIBE"}
    others = set(ROLES) - {"producer", "consumer"}
    assert not any(operations(role, "transactional_id", writer) for role in others)


def test_a_query_s_mark_is_the_consumer_s_and_only_seen_by_airflow() -> None:
    group = committed_batch.group("isp_hits", "zipcodes")
    assert operations("consumer", "group", group) == {"READ", "DESCRIBE"}
    assert operations("airflow", "group", group) == {"DESCRIBE"}
    assert operations("reader", "group", group) == set()


def test_plain_files_of_queries_are_the_consumer_s_to_write() -> None:
    key = "warehouse/files/isp_hits/zipcode=10115/day=2026-01-31/b000000000000.parquet"
    assert {role for role in ROLES if may(role, "s3:PutObject", key)} == {"consumer"}
    assert {role for role in ROLES if may(role, "s3:GetObject", key)} == {"airflow", "consumer", "reader"}


def test_of_a_topic_of_others_nothing_is_written_or_changed() -> None:
    rules = kafka_rules([TOPIC], others={"shop.orders": "connect-orders", TOPIC: ""})
    assert len(rules) == len(set(rules))
    of_topic = {(rule.user, rule.operation) for rule in rules if rule.name == "shop.orders"}
    assert {operation for _, operation in of_topic} == {"READ", "DESCRIBE", "DESCRIBE_CONFIGS"}
    assert {user for user, operation in of_topic if operation == "READ"} == {
        "sluice-airflow", "sluice-consumer", "sluice-observer", "sluice-reader",
    }  # fmt: skip
    of_group = [(rule.user, rule.kind, rule.operation) for rule in rules if rule.name == "connect-orders"]
    assert of_group == [("sluice-consumer", "group", "DESCRIBE")]
    # Beside its own rights there are none for a topic that another stream has.
    assert [rule for rule in rules if rule.name == TOPIC] == [
        rule for rule in kafka_rules([TOPIC]) if rule.name == TOPIC
    ]
