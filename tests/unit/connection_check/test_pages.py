"""The policies of docs/estate-aws.md give each role what is asked of it, and no more."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from sluice.config import platform
from sluice.config.platform import ROLES
from sluice.connection_check.probing import catalog as probing
from sluice.connection_check.probing.ends import places
from sluice.connection_check.rights.kafka import kafka_rules, kafka_user, of_msk
from sluice.connection_check.rights.s3 import Places, s3_grants
from sluice.connection_check.rights.tables import (
    glue_actions,
)
from sluice.connection_check.rows import Row

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "estate-aws.md").read_text()
LAKE, LANDING = "example-lake", "example-landing"
USUAL = Places(f"{LAKE}/lake", f"{LAKE}/ledger", LANDING, files=(f"{LAKE}/files",))
# docs/your-own-systems.md, Kafka: IAM's words on MSK.
_TOPIC = {
    "READ": "ReadData",
    "DESCRIBE": "DescribeTopic",
    "WRITE": "WriteData",
    "CREATE": "CreateTopic",
    "ALTER": "AlterTopic",
    "ALTER_CONFIGS": "AlterTopicDynamicConfiguration",
    "DESCRIBE_CONFIGS": "DescribeTopicDynamicConfiguration",
}
MSK = {
    "topic": ("topic", _TOPIC),
    "group": ("group", {"READ": "AlterGroup", "DESCRIBE": "DescribeGroup"}),
    "transactional_id": (
        "transactional-id",
        {"WRITE": "AlterTransactionalId", "DESCRIBE": "DescribeTransactionalId"},
    ),
}
CLUSTER = {"DESCRIBE": "DescribeCluster", "IDEMPOTENT_WRITE": "WriteDataIdempotently"}


def policies() -> dict[str, list[dict[str, Any]]]:
    """Roles, as the page names them -> the statements below."""
    (text,) = re.findall(r"^## Rights of each role\n(.*?)^## ", PAGE, re.DOTALL | re.MULTILINE)
    found = re.findall(r"^`([a-z]+)`:\n\n```json\n(.*?)```", text, re.DOTALL | re.MULTILINE)
    return {role: json.loads(body)["Statement"] for role, body in found}


def rights(statements: list[dict[str, Any]], service: str) -> set[tuple[str, str]]:
    """Action and resource, each by its last part."""
    return {
        (action, resource)
        for one in statements
        for action in one["Action"]
        for resource in one["Resource"]
        if action.startswith(f"{service}:")
    }


OF_ROLE = policies()


def test_the_page_has_each_role() -> None:
    assert set(OF_ROLE) == set(ROLES)


@pytest.mark.parametrize("role", ROLES)
def test_the_rights_on_s3(role: str) -> None:
    written = {
        (action, resource.removeprefix("arn:aws:s3:::")) for action, resource in rights(OF_ROLE[role], "s3")
    }
    declared = {
        (action, resource)
        for grant in s3_grants(USUAL)[role]
        for action in grant.actions
        for resource in grant.resources
    }
    assert written == declared


@pytest.mark.parametrize("role", ROLES)
def test_the_rights_on_glue(role: str) -> None:
    written = rights(OF_ROLE[role], "glue")
    for table, in_check_namespace in (("table/raw/*", False), ("table/sluice_check/*", True)):
        on_table = {action for action, resource in written if resource.endswith(f":{table}")}
        assert on_table == set(glue_actions(role, in_check_namespace=in_check_namespace))


@pytest.mark.parametrize("role", ROLES)
def test_what_is_asked_of_glue_is_given_by_the_page(role: str) -> None:
    """By a Glue that refuses what the policy of the page does not give."""
    written = rights(OF_ROLE[role], "glue")

    def answer(action: str) -> Callable[..., Any]:
        def asked(**given: Any) -> Any:
            table = given.get("Name") or given["TableInput"]["Name"]
            place = f"table/{given['DatabaseName']}/{table}"
            allowed = any(
                found == action and fnmatchcase(place, resource.rsplit(":", 1)[1])
                for found, resource in written
            )
            code = "EntityNotFoundException" if allowed else "AccessDeniedException"
            headers: dict[str, Any] = {"ResponseMetadata": {"HTTPHeaders": {}}}
            raise ClientError(cast("Any", {"Error": {"Code": code}, **headers}), action)

        return asked

    glue = SimpleNamespace(
        get_table=answer("glue:GetTable"),
        update_table=answer("glue:UpdateTable"),
        delete_table=answer("glue:DeleteTable"),
    )
    row = Row(role, "lake.catalog glue", "there")
    probing._ask_glue(row, glue, "sluice_check")
    assert (row.rights.missing, row.rights.excess, row.rights.asked) == ((), (), 3)


def on_msk(role: str) -> Iterator[tuple[str, str]]:
    rules = kafka_rules(["rides"], ["rides_hourly"])
    mine = [rule for rule in rules if rule.user == kafka_user(role)]
    for rule in mine:
        if rule.kind in MSK:
            kind, words = MSK[rule.kind]
            name = f"{rule.name}*" if rule.prefixed else rule.name
            yield f"kafka-cluster:{words[rule.operation]}", f"{kind}/example/*/{name}"
    if mine:
        cluster = "cluster/example/*"
        yield "kafka-cluster:Connect", cluster
        yield from ((f"kafka-cluster:{CLUSTER[one]}", cluster) for one in of_msk(role))


@pytest.mark.parametrize("role", ROLES)
def test_the_rights_on_kafka(role: str) -> None:
    written = {
        (action, resource.rsplit(":", 1)[1]) for action, resource in rights(OF_ROLE[role], "kafka-cluster")
    }
    assert written == set(on_msk(role))


def test_the_rights_on_s3_tables() -> None:
    """Which are the catalog's to ask: the page of the estate grants what the page of catalogs lists."""
    (text,) = re.findall(r"^## Amazon S3 Tables\n(.*?)^## ", PAGE, re.DOTALL | re.MULTILINE)
    reading, writing = (
        {action for action, _ in rights(json.loads(body)["Statement"], "s3tables")}
        for body in re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    )
    page = (DOCS / "catalogs.md").read_text()
    of_readers, of_writers = (
        set(actions) for line in page.splitlines() if (actions := re.findall(r"`(s3tables:\w+)`", line))
    )
    assert reading == of_readers
    assert writing == of_readers | of_writers


def test_nothing_is_asked_of_s3_that_s3_tables_keep() -> None:
    """With the platform file of the page."""
    toml = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    usual, tables = toml[0], next(one for one in toml if "s3tables" in one)
    without_lake = re.sub(r"\[lake\].*?(?=\[source\])", "", usual, flags=re.DOTALL)
    found = places(platform.parse(f"{without_lake}\n{tables}", "consumer.toml"), ["files"])
    assert found.in_catalog
    granted = s3_grants(found)
    resources = {one for theirs in granted.values() for grant in theirs for one in grant.resources}
    assert not [one for one in resources if fnmatchcase(f"{LAKE}/lake/x/data/y", one)]
    kept = f"{found.documents}/*/batches/rolled-up/*"
    assert [one.resources for one in granted["maintenance"]] == [
        (f"{found.documents}/*/batches/published/*", kept, f"{found.documents}/*/without-record/*"),
        (kept,),
        (f"{found.ledger}/*/portions/*",),
        tuple(f"{found.ledger}/*/history/{kind}*" for kind in ("maintenance/", "reconciled_", "passed_")),
    ]
    documents = {
        role: {
            action for grant in theirs for action in grant.actions if f"{LAKE}/documents/*" in grant.resources
        }
        for role, theirs in granted.items()
    }
    assert documents["consumer"] == {"s3:GetObject", "s3:PutObject"}
    assert documents["reader"] == documents["observer"] == {"s3:GetObject"}
    assert documents["producer"] == set()
