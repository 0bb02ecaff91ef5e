"""The pages of estates: their platform files are read as a role's is, their policies and commands grant what
the table of rights names, and each line says how it is known."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sluice.config import platform
from sluice.config.reading.toml import dump
from sluice.connection_check.rights.s3 import Places, s3_grants
from tests.unit.docs.test_docs import CATALOGS, ESTATES, OWN_SYSTEMS, names, section, table

AWS, CONFLUENT, SELF_HOSTED = ESTATES
each_page = pytest.mark.parametrize("page", ESTATES, ids=lambda page: page.stem)
REFERENCES = {"file", "env", "airflow_variable", "airflow_connection"}
KINDS = {"Topic": {"rides"}, "Results": {"rides_hourly"}}
KINDS |= {"Progress": {"sluice-progress"}, "Positions": {"sluice-feed-positions"}}
# Kafka's operations -> the actions of IAM, by AWS's documentation of MSK.
ACTIONS = {
    "topic": {
        "Read": "ReadData",
        "Write": "WriteData",
        "Describe": "DescribeTopic",
        "Create": "CreateTopic",
        "Alter": "AlterTopic",
        "AlterConfigs": "AlterTopicDynamicConfiguration",
        "DescribeConfigs": "DescribeTopicDynamicConfiguration",
    },
    "group": {"Read": "AlterGroup", "Describe": "DescribeGroup"},
    "transactional-id": {"Write": "AlterTransactionalId", "Describe": "DescribeTransactionalId"},
    "cluster": {"IdempotentWrite": "WriteDataIdempotently"},
}
Rights = set[tuple[str, str, str]]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.M | re.S)


def policies(page: Path) -> dict[str, Any]:
    """Role -> its policy."""
    found = re.findall(r"^`(\w+)`:\n\n```json\n(.*?)^```$", page.read_text(), re.M | re.S)
    assert [role for role, _ in found] == list(platform.ROLES)
    return {role: json.loads(text) for role, text in found}


def acls() -> dict[str, Rights]:
    """Role -> kind, name and operation, as the table of rights names them."""
    found: dict[str, Rights] = {}
    for row in table(OWN_SYSTEMS.read_text(), "role", "Kafka ACL"):
        rights = found.setdefault(names(row[0])[0], set())
        for clause in filter(None, row[1].split(". ")):
            what, _, operations = clause.partition(": ")
            kind = what.split(" `")[0]
            named = {"Group": "group", "Transactional id": "transactional-id", "Cluster": "cluster"}
            places = KINDS.get(kind) or set(names(what)) or {""}
            for place in places:
                rights |= {(named.get(kind, "topic"), place, one) for one in operations.split(", ")}
    return found


def plain(value: Any) -> Any:
    """Without references to where a secret is: the files are none of this machine."""
    if isinstance(value, Mapping):
        is_reference = set(value) <= REFERENCES and len(value) == 1
        return "change-me" if is_reference else {key: plain(one) for key, one in value.items()}
    return value


def merged(whole: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """A part in place of what a file has of it; another catalog or registry as a whole."""
    both = dict(whole)
    for key, value in part.items():
        is_other = isinstance(value, dict) and {"type", "url"} & set(value)
        both[key] = merged(whole.get(key, {}), value) if isinstance(value, dict) and not is_other else value
    return both


@each_page
def test_each_platform_file_is_read_as_one_of_a_role(page: Path) -> None:
    whole, *parts = [plain(tomllib.loads(text)) for text in blocks(page, "toml")]
    for document in (whole, *(merged(whole, part) for part in parts)):
        assert platform.parse(dump(document), f"{page.name}").role == "consumer"


def test_the_policies_of_s3_are_those_of_the_table_and_of_the_embedded_stack() -> None:
    rows = {names(row[0])[0]: row[2] for row in table(OWN_SYSTEMS.read_text(), "role", "Kafka ACL")}
    lake = "example-lake"
    places = Places(f"{lake}/lake", f"{lake}/ledger", "example-landing", files=(f"{lake}/files",))
    declared = s3_grants(places)
    for role, policy in policies(AWS).items():
        assert actions(policy, "s3") == set(re.findall(r"\b[A-Z]\w+", rows[role])), role
        for statement in policy["Statement"]:
            assert (statement["Effect"], set(statement)) == ("Allow", {"Effect", "Action", "Resource"}), role
            assert not [one for one in statement["Resource"] if one.strip("*") == ""], role
        granted = {
            (action, arn.removeprefix("arn:aws:s3:::"))
            for statement in policy["Statement"]
            for action in statement["Action"]
            for arn in statement["Resource"]
            if action.startswith("s3:")
        }
        rights = {
            (action, one) for grant in declared[role] for action in grant.actions for one in grant.resources
        }
        assert granted == rights, role


def test_minio_s_policies_are_taken_out_of_those_of_aws() -> None:
    """By the page's command, which looks at the first action of a statement."""
    (command,) = [text for text in blocks(SELF_HOSTED, "sh") if "mc admin" in text]
    assert f"for role in {' '.join(platform.ROLES)}; do" in command
    assert 'select(.Action[0] | startswith("s3:"))' in command
    assert "](estate-aws.md#rights-of-each-role)" in SELF_HOSTED.read_text()
    for role, policy in policies(AWS).items():
        for statement in policy["Statement"]:
            services = {action.partition(":")[0] for action in statement["Action"]}
            assert len(services) == 1, role


def actions(policy: Any, service: str) -> set[str]:
    said = {action for statement in policy["Statement"] for action in statement["Action"]}
    return {one.partition(":")[2] for one in said if one.startswith(f"{service}:")}


def test_the_policies_of_msk_are_the_acls_of_the_table() -> None:
    for role, policy in policies(AWS).items():
        granted = set()
        for statement in policy["Statement"]:
            for action in statement["Action"]:
                service, _, name = action.partition(":")
                for arn in statement["Resource"] if service == "kafka-cluster" else ():
                    kind, _, rest = arn.split(":", 5)[5].partition("/")
                    granted.add((kind, "/".join(rest.split("/")[2:]), name))
        expected = {(kind, place, ACTIONS[kind][one]) for kind, place, one in acls()[role]}
        if expected:
            expected |= {("cluster", "", "Connect"), ("cluster", "", "DescribeCluster")}
        if role == "consumer":
            # By AWS's documentation, for transactions.
            expected.add(("cluster", "", "WriteDataIdempotently"))
        assert granted == expected, role


def test_the_policies_of_glue_and_s3_tables_are_those_of_catalogs() -> None:
    for service, head in (("glue", "AWS Glue"), ("s3tables", "Signed requests")):
        rows = re.findall(r"^\| (.*`(?:airflow|producer)`.*?) \|", section(CATALOGS.read_text(), head), re.M)
        assert rows, service
    readers, writers, tried, _ = table(section(CATALOGS.read_text(), "AWS Glue"), "role", "actions")
    usual = set(re.findall(r"glue:(\w+)", writers[1]))
    for role, policy in policies(AWS).items():
        if role in names(readers[0]):
            assert actions(policy, "glue") == set(re.findall(r"glue:(\w+)", readers[1])), role
        elif role in names(writers[0]):
            assert actions(policy, "glue") == usual | set(re.findall(r"glue:(\w+)", tried[1])), role
        else:
            assert not actions(policy, "glue"), role
    others = [json.loads(text) for text in blocks(AWS, "json") if "s3tables:" in text]
    rows = section(CATALOGS.read_text(), "Signed requests").splitlines()
    reading, writing = (re.findall(r"s3tables:(\w+)", row) for row in rows if "`s3tables:" in row)
    assert [actions(one, "s3tables") for one in others] == [set(reading), {*reading, *writing}]


def granted_by_commands(page: Path) -> Iterator[tuple[str, tuple[str, str, str]]]:
    kinds = {"--topic": "topic", "--group": "group", "--consumer-group": "group", "--cluster": "cluster"}
    kinds |= {"--transactional-id": "transactional-id", "--cluster-scope": "cluster"}
    for line in "".join(blocks(page, "sh")).splitlines():
        if not line.startswith("acl "):
            continue
        if line.startswith("acl()"):
            continue
        _, principal, *rest = line.split()
        option = next(one for one in rest if one in kinds)
        place = "" if kinds[option] == "cluster" else rest[rest.index(option) + 1]
        is_prefix = "--prefix" in rest or "prefixed" in rest
        said = [rest[n + 1] for n, one in enumerate(rest) if one in ("--operation", "--operations")]
        for one in ",".join(said).split(","):
            name = one if one[0].isupper() else one.title().replace("-", "")
            yield principal.partition("-")[2], (kinds[option], f"{place}*" if is_prefix else place, name)


@pytest.mark.parametrize("page", [CONFLUENT, SELF_HOSTED], ids=lambda page: page.stem)
def test_the_commands_grant_the_acls_of_the_table(page: Path) -> None:
    granted: dict[str, Rights] = {role: set() for role in platform.ROLES}
    for role, right in granted_by_commands(page):
        assert right not in granted[role], f"{role} twice: {right}"
        granted[role].add(right)
    assert granted == acls()


def test_the_grants_in_postgresql_are_those_of_the_embedded_stack() -> None:
    (text,) = blocks(SELF_HOSTED, "sql")
    code = Path(OWN_SYSTEMS.parents[1], "local", "services", "postgres.py").read_text()
    literals = " ".join(re.findall(r'"((?:grant|revoke|alter default|create role|select)[^"]*)"', code))
    literal = [one.strip() for one in text.split(";") if "schema public" in one or "nologin" in one]
    assert len(literal) == 5
    for statement in literal:
        words = statement.replace("\\connect lake", "").strip().partition(" grant select on tables")[0]
        assert words in literals, words


@each_page
def test_each_line_says_how_it_is_known(page: Path) -> None:
    tables = re.findall(r"((?:^\|.*\n)+)", page.read_text(), re.M)
    told = [one.splitlines() for one in tables if "| known by |" in one.splitlines()[0]]
    assert len(told) >= 3
    for head, _, *rows in told:
        for row in rows:
            known = row.strip("| ").split("|")[-1]
            assert "tried here" in known or "documentation" in known, f"{head}: {row}"
