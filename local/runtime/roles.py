"""Least privilege of each role: Kafka ACLs, S3 policies, platform files."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.base import UsageError
from local.runtime.home import StackDir, write_private
from local.runtime.ports import HOST
from sluice.model.spec.platform import ROLES
from sluice.model.spec.stream import PROGRESS_TOPIC

WAREHOUSE = "warehouse"
SOURCE = "source"


@dataclass(frozen=True)
class Rule:
    """One thing that a Kafka user may do. `kind`: topic, group, transactional_id or broker (the cluster)."""

    user: str
    kind: str
    name: str
    prefixed: bool
    operation: str


def kafka_user(role: str) -> str:
    return f"sluice-{role}"


def kafka_rules(topics: Iterable[str], results: Iterable[str] = ()) -> list[Rule]:
    """Everything the four roles may do on the streams' topics, and on those of their queries' ``results``;
    what is not listed is refused by the broker."""
    rules: list[Rule] = []

    def allow(role: str, kind: str, name: str, operations: str, prefixed: bool = False) -> None:
        rules.extend(
            Rule(kafka_user(role), kind, name, prefixed, operation) for operation in operations.split()
        )

    for topic in topics:
        allow("airflow", "topic", topic, "CREATE ALTER DESCRIBE ALTER_CONFIGS DESCRIBE_CONFIGS")
        allow("producer", "topic", topic, "WRITE DESCRIBE READ")
        allow("consumer", "topic", topic, "READ DESCRIBE")
        allow("reader", "topic", topic, "READ DESCRIBE")
    for topic in results:
        # Airflow checks what they hold. Setting a group's offsets wants Read on the topic.
        allow("airflow", "topic", topic, "CREATE ALTER DESCRIBE ALTER_CONFIGS DESCRIBE_CONFIGS READ")
        allow("consumer", "topic", topic, "WRITE DESCRIBE READ")
        allow("reader", "topic", topic, "READ DESCRIBE")
    progress = PROGRESS_TOPIC.name
    allow("airflow", "topic", progress, "CREATE ALTER DESCRIBE ALTER_CONFIGS DESCRIBE_CONFIGS READ")
    allow("consumer", "topic", progress, "WRITE DESCRIBE")
    allow("reader", "topic", progress, "READ DESCRIBE")
    allow("consumer", "transactional_id", "sluice-", "WRITE DESCRIBE", prefixed=True)
    allow("airflow", "group", "sluice-", "DESCRIBE", prefixed=True)
    allow("producer", "broker", "kafka-cluster", "IDEMPOTENT_WRITE")
    for role in ("producer", "consumer", "reader"):
        # Spark makes its own group names under its prefix, for streams (-source) and for batches (-relation).
        allow(role, "group", "spark-kafka-", "READ DESCRIBE", prefixed=True)
    allow("producer", "group", "sluice-", "READ DESCRIBE", prefixed=True)
    allow("consumer", "group", "sluice-", "READ DESCRIBE", prefixed=True)
    allow("reader", "group", "sluice-reader", "READ DESCRIBE", prefixed=True)
    return rules


_READ = ["s3:GetObject", "s3:GetObjectVersion"]
_WRITE = ["s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"]
_LIST = ["s3:ListBucket", "s3:GetBucketLocation"]
_VERSIONS = ["s3:ListBucketVersions", "s3:GetBucketVersioning", "s3:ListBucketMultipartUploads"]


def s3_policies() -> dict[str, dict[str, Any]]:
    """One policy per role. None may delete: what was written stays until a person removes it."""
    ledger, lake = f"{WAREHOUSE}/ledger/*", f"{WAREHOUSE}/lake/*"
    # The plain files of queries: the prefixes of sinks begin with files/.
    files = f"{WAREHOUSE}/files/*"
    return {
        "airflow": _policy(
            (_LIST + _VERSIONS, [WAREHOUSE, SOURCE]),
            (_READ, [f"{WAREHOUSE}/*", f"{SOURCE}/*"]),
            (["s3:PutObject"], [ledger]),
        ),
        "producer": _policy(
            (_LIST, [WAREHOUSE, SOURCE]),
            (_READ, [f"{SOURCE}/*", ledger, lake]),
            (_WRITE, [lake]),
        ),
        "consumer": _policy(
            (_LIST, [WAREHOUSE]),
            (_READ + _WRITE, [lake, files]),
        ),
        "reader": _policy((_LIST, [WAREHOUSE]), (_READ, [lake, files])),
    }


def _policy(*grants: tuple[list[str], list[str]]) -> dict[str, Any]:
    statements = [
        {"Effect": "Allow", "Action": actions, "Resource": [f"arn:aws:s3:::{name}" for name in resources]}
        for actions, resources in grants
    ]
    return {"Version": "2012-10-17", "Statement": statements}


Document = dict[str, Any]


def documents(
    home: StackDir,
    ports: Mapping[str, int],
    secrets: Mapping[str, str],
    feeds: Mapping[str, str] | None = None,
) -> dict[str, Document]:
    """The embedded stack's platform file of each role, as plain data.

    `feeds`: stream → where its feed is read instead. For the producer, and for Airflow, whose loads say so.
    """
    made: dict[str, Document] = {}
    for role in ROLES:
        made[role] = {
            "role": role,
            "kafka": {
                "bootstrap_servers": f"{HOST}:{ports['kafka']}",
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "username": kafka_user(role),
                "password": secrets[f"kafka_{role}"],
            },
            "s3": {
                "endpoint": f"http://{HOST}:{ports['minio']}",
                "region": "us-east-1",
                "access_key": f"sluice-{role}",
                "secret_key": secrets[f"minio_{role}"],
                "path_style": True,
            },
            "lake": {
                "warehouse": f"s3://{WAREHOUSE}/lake",
                "ledger": f"s3://{WAREHOUSE}/ledger",
                "catalog_host": HOST,
                "catalog_port": ports["postgres"],
                "catalog_database": "lake",
                "catalog_user": f"lake_{role}",
                "catalog_password": secrets[f"lake_{role}"],
            },
            "source": {"bucket": SOURCE},
            "checkpoints": {"root": str(home.checkpoints)},
        }
    made["airflow"]["supervisor"] = {
        "url": f"http://{HOST}:{ports['supervisor']}/RPC2",
        "username": "sluice",
        "password": secrets["supervisor"],
    }
    if feeds:
        for role in ("producer", "airflow"):
            made[role]["feeds"] = dict(feeds)
    return made


def external(ours: dict[str, Document], folder: Path) -> dict[str, Document]:
    """The same with a person's own Kafka and S3, from `<role>.toml` files in `folder` (SLUICE_EXTERNAL).

    Their `kafka` and `s3` must be there; in `lake` the catalog may be left out (then it is the local
    PostgreSQL), and so may `checkpoints`, `source` and `feeds`. The supervisor is always ours.
    Raises UsageError naming the file and what is missing in it.
    """
    made: dict[str, Document] = {}
    for role, mine in ours.items():
        path = folder / f"{role}.toml"
        try:
            theirs = tomllib.loads(path.read_text())
        except OSError as error:
            raise UsageError(
                f"SLUICE_EXTERNAL: {path}: {error.strerror}; each role needs its file"
            ) from error
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"SLUICE_EXTERNAL: {path}: not valid TOML: {error}") from error
        for section in ("kafka", "s3", "lake"):
            if not isinstance(theirs.get(section), dict):
                raise UsageError(
                    f"SLUICE_EXTERNAL: {path}: [{section}] is missing; see the README for its keys"
                )
        made[role] = {
            **{name: value for name, value in mine.items() if name in ("source", "checkpoints", "feeds")},
            **theirs,
            "role": role,
            "lake": {**mine["lake"], **theirs["lake"]},
            **({"supervisor": mine["supervisor"]} if "supervisor" in mine else {}),
        }
    return made


def render(document: Document) -> str:
    """TOML text: top-level values first, then one table per section; texts, numbers and booleans."""
    lines = [f"{key} = {_value(value)}" for key, value in document.items() if not isinstance(value, dict)]
    for section, items in document.items():
        if isinstance(items, dict):
            lines += ["", f"[{section}]", *(f"{key} = {_value(value)}" for key, value in items.items())]
    return "\n".join(lines) + "\n"


def _value(value: str | int | bool) -> str:
    # JSON's text, numbers and booleans are TOML's too.
    return json.dumps(value, ensure_ascii=False)


def write(folder: Path, made: Mapping[str, Document]) -> bool:
    """Writes `<role>.toml`, mode 600; says whether anything changed."""
    changed = [write_private(folder / f"{role}.toml", render(document)) for role, document in made.items()]
    return any(changed)
