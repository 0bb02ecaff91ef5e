"""The embedded roles on a real Kafka, MinIO and PostgreSQL: they have the rights that a check asks, and each
fault is one line."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from minio.credentials import StaticProvider
from minio.minioadmin import MinioAdmin

from local.runtime.ports import free_ports, free_range
from local.runtime.roles import s3_policies
from local.services import minio, postgres
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.config import streams
from sluice.config.platform import ROLES, Platform
from sluice.connection_check.check import check
from sluice.connection_check.deadlines import ANSWER_SECONDS
from sluice.connection_check.needs import Needs, needs, topics
from sluice.connection_check.probing.kafka import rights_on_groups, rights_on_topics
from sluice.connection_check.rows import Row, failures, remarks
from sluice.connection_check.run import End, look
from tests.support.services import Services

# What these services have; the others of a platform file do not run here.
ENDS = ("kafka", "kafka broker", "s3", "lake.catalog sql")
SPECS = streams.load_valid().specs


@pytest.fixture(scope="module")
def needed() -> Needs:
    return needs(SPECS)


def without_services(platform: Platform) -> Platform:
    return replace(platform, supervisor=None, observer=None, metrics=None)


def looked_at(
    services: Services,
    needed: Needs,
    *roles: str,
    change: Callable[[Platform], Platform] = without_services,
) -> list[Row]:
    return check(roles, lambda role: change(without_services(services.stack.platform(role))), needed)


def test_the_embedded_roles_have_their_rights_and_no_more(services: Services, needed: Needs) -> None:
    rows = looked_at(services, needed, *ROLES)
    assert failures(rows) == []
    assert [(row.role, row.end) for row in rows] == [(role, end) for role in ROLES for end in ENDS]
    assert [row.where for row in rows if row.rights.missing or row.rights.excess] == []
    asked = {(row.role, row.end): row.rights.asked for row in rows}
    assert all(asked[role, "s3"] > 60 for role in ROLES)
    assert all(asked[role, "kafka"] > 1 for role in ROLES)
    assert asked["consumer", "lake.catalog sql"] == 2
    # It needs nothing in the catalog, and has no way in.
    assert asked["maintenance", "lake.catalog sql"] == 0
    clocks = [row.clock for row in rows if row.end in ("s3", "lake.catalog sql") and row.clock is not None]
    assert len(clocks) == 2 * len(ROLES) - 1
    assert max(map(abs, clocks)) < 5
    # It has written nothing.
    found = services.minio.list_object_versions(Bucket="warehouse")
    assert not [*found.get("Versions", []), *found.get("DeleteMarkers", [])]
    secrets = [services.stack.secrets[name] for name in services.stack.secrets]
    assert not [line for line in [*map(repr, rows)] if any(secret in line for secret in secrets)]


@contextmanager
def acl(services: Services, user: str, operation: str, topic: str, *, is_there: bool) -> Iterator[None]:
    """A right on a topic, given, or taken away, for a while."""
    admin = AdminClient({**services.kafka, "log_level": 0})
    binding = AclBinding(
        *(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*"),
        *(AclOperation[operation], AclPermissionType.ALLOW),
    )
    found = AclBindingFilter(
        *(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*"),
        *(AclOperation[operation], AclPermissionType.ALLOW),
    )

    def put(there: bool) -> None:
        futures = admin.create_acls([binding]) if there else admin.delete_acls([found])
        for future in futures.values():
            future.result(10)
        # A broker applies it a moment after it is kept.
        time.sleep(0.5)

    put(is_there)
    try:
        yield
    finally:
        put(not is_there)


@contextmanager
def policy(services: Services, role: str, change: Callable[[list[Any]], None]) -> Iterator[None]:
    """Another policy of a role's user in MinIO, for a while."""
    admin = MinioAdmin(
        endpoint=services.minio_url.removeprefix("http://"),
        credentials=StaticProvider(minio.ROOT_USER, services.stack.secrets["minio_root"]),
        secure=False,
    )
    usual = s3_policies()[role]
    other = s3_policies()[role]
    change(other["Statement"])
    admin.policy_add(f"sluice-{role}", policy=other)
    try:
        yield
    finally:
        admin.policy_add(f"sluice-{role}", policy=usual)


@pytest.mark.exhaustive
def test_a_right_too_many_and_one_that_is_missing_are_named(services: Services, needed: Needs) -> None:
    # The only topic that exists.
    own = topics(SPECS)[0][0]
    with (
        acl(services, "sluice-consumer", "READ", own, is_there=False),
        acl(services, "sluice-consumer", "WRITE", own, is_there=True),
    ):
        rows = looked_at(services, needed, "consumer")
    seen = {row.end: row for row in rows}
    (line,) = failures(rows)
    assert f"1 right missing: READ on topic {own}. Fix: grant the user of [kafka]" in line
    assert f"1 right too many: WRITE on topic {own}" in " ".join(remarks([seen["kafka"]]))


@pytest.mark.exhaustive
def test_rights_on_objects_that_are_missing_or_too_many_are_named(services: Services, needed: Needs) -> None:
    def swap(statements: list[Any]) -> None:
        (written,) = [one for one in statements if "s3:AbortMultipartUpload" in one["Action"]]
        written["Action"] = [one for one in written["Action"] if one != "s3:PutObject"]
        statements.append(
            {
                "Effect": "Allow",
                "Action": ["s3:GetObject", "s3:DeleteObject"],
                "Resource": ["arn:aws:s3:::source/*"],
            }
        )

    with policy(services, "consumer", swap):
        (row,) = [one for one in looked_at(services, needed, "consumer") if one.end == "s3"]
    assert "PutObject on warehouse/lake/sluice-check" in row.rights.missing
    assert {"GetObject on source/sluice-check", "DeleteObject on source/sluice-check"} <= set(
        row.rights.excess
    )
    (line,) = failures([row])
    assert "missing: PutObject on warehouse/lake/" in line


@pytest.mark.exhaustive
def test_versions_that_are_not_kept_are_named(services: Services, needed: Needs) -> None:
    def versions(status: str) -> None:
        services.minio.put_bucket_versioning(Bucket="source", VersioningConfiguration={"Status": status})

    versions("Suspended")
    try:
        (row,) = [one for one in looked_at(services, needed, "airflow") if one.end == "s3"]
    finally:
        versions("Enabled")
    (line,) = failures([row])
    assert "bucket source keeps no versions (Suspended). Fix: " in line


@pytest.mark.exhaustive
def test_rights_in_the_catalogs_database_are_named(services: Services, needed: Needs) -> None:
    from sluice.clients.lake.catalog import Lake

    # A writer makes its tables.
    lake = Lake.open(services.stack.platform("consumer"))
    lake.catalog.create_tables()  # type: ignore[attr-defined]
    lake.close()
    with postgres.cursor(services.stack.context, "lake") as current:
        rows = looked_at(services, needed, "reader", "consumer")
        assert failures(rows) == []
        assert [row.rights.asked for row in rows if row.end == ENDS[-1]] == [5, 5]
        current.execute("grant update on iceberg_tables to lake_reader")
        current.execute("revoke delete on iceberg_tables from lake_writer")
        try:
            rows = looked_at(services, needed, "reader", "consumer")
        finally:
            current.execute("revoke update on iceberg_tables from lake_reader")
            current.execute("grant delete on iceberg_tables to lake_writer")
    reader, consumer = (row for row in rows if row.end == ENDS[-1])
    assert reader.rights.excess == ("UPDATE on table iceberg_tables",)
    assert consumer.rights.missing == ("DELETE on table iceberg_tables",)


def wrong(platform: Platform) -> Platform:
    """Its passwords are others."""
    catalog = replace(platform.lake.catalog, password="another-one")
    return replace(
        platform,
        kafka=replace(platform.kafka, password="another-one"),
        s3=replace(platform.s3, secret_key="another-one"),
        lake=replace(platform.lake, catalog=catalog),
    )


@pytest.mark.exhaustive
def test_a_wrong_password_is_one_line_of_each_end(services: Services, needed: Needs) -> None:
    rows = looked_at(services, needed, "consumer", change=wrong)
    assert [bool(row.problems) for row in rows] == [True] * len(ENDS)
    lines = failures(rows)
    # It needs nothing of Kafka and of the catalog.
    rows = looked_at(services, needed, "maintenance", change=wrong)
    assert {row.end for row in rows if row.problems} == {"s3"}
    assert not [line for line in lines if "another-one" in line]
    assert not [line for line in lines if "Fix: " not in line]


@pytest.mark.exhaustive
def test_servers_that_do_not_answer_cost_their_time_once(services: Services, needed: Needs) -> None:
    (port,) = free_ports(1, set(services.stack.ports.values()), free_range({}))

    def elsewhere(platform: Platform) -> Platform:
        catalog = replace(platform.lake.catalog, uri=f"postgresql://127.0.0.1:{port}/lake")
        return replace(
            platform,
            kafka=replace(platform.kafka, bootstrap_servers=f"127.0.0.1:{port}"),
            s3=replace(platform.s3, endpoint=f"http://127.0.0.1:{port}"),
            lake=replace(platform.lake, catalog=catalog),
        )

    began = time.monotonic()
    rows = looked_at(services, needed, *ROLES, change=elsewhere)
    assert time.monotonic() - began < 30
    assert [row.where for row in rows if not row.problems] == []


@pytest.mark.exhaustive
def test_a_server_that_stands_still_is_named_and_the_others_are_shown(
    services: Services, needed: Needs
) -> None:
    services.signal("minio", signal.SIGSTOP)
    began = time.monotonic()
    try:
        rows = looked_at(services, needed, "reader", "observer")
    finally:
        services.signal("minio", signal.SIGCONT)
    assert {row.end for row in rows if row.problems} == {"s3"}
    assert time.monotonic() - began < 30


@pytest.mark.exhaustive
def test_a_broker_that_stands_still_while_it_is_asked_for_rights_is_named(services: Services) -> None:
    kafka = services.stack.platform("consumer").kafka
    admin = KafkaAdmin(kafka, ANSWER_SECONDS)
    assert admin.find(topics(SPECS)[0][0])

    def ask(asked: Callable[[KafkaAdmin, Sequence[str]], object], rows: list[Row]) -> None:
        services.signal("kafka", signal.SIGSTOP)
        try:
            asked(admin, ["one"])
        finally:
            services.signal("kafka", signal.SIGCONT)

    for asked in (rights_on_topics, rights_on_groups):
        (row,) = look([End(Row("consumer", "kafka", kafka.bootstrap_servers), partial(ask, asked))])
        (problem,) = row.problems
        assert "rights on" in problem
        assert "TIMED_OUT" in problem
        assert "Fix: start it" in problem
