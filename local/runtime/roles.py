"""Least privilege of each role: Kafka ACLs, S3 policies, platform files."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.base import UsageError
from local.runtime.home import StackDir, write_files
from local.runtime.ports import Network
from local.runtime.registry_access import registry_section
from local.runtime.secrets import REGISTRY_ROLES
from sluice.clients.registry.objects import PREFIX as SCHEMAS
from sluice.config.platform import ROLES
from sluice.config.platform_sections.catalog import REST, SQL
from sluice.config.postgresql import DISABLE
from sluice.config.reading.references import ENV, is_reference
from sluice.config.reading.toml import dump
from sluice.config.reading.urls import is_loopback
from sluice.config.sections.feed import TRANSACTIONAL_IDS
from sluice.config.sections.topic import POSITIONS_TOPIC, PROGRESS_TOPIC
from sluice.core.json_record import Document
from sluice.core.schema_versions.documents import FOLDERS as DOCUMENTS

WAREHOUSE = "warehouse"
SOURCE = "source"
# The bucket of checkpoints, where no volume is shared.
CHECKPOINTS = "checkpoints"
# The login of the REST catalog in MinIO.
CATALOG_USER = "sluice-catalog"
# On a cluster, a Secret with the password of each role under its name, for Strimzi's users: those of the
# platform files.
KAFKA_PASSWORDS = "sluice-kafka-passwords"


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


def kafka_user(role: str) -> str:
    return f"sluice-{role}"


def kafka_rules(
    topics: Iterable[str], results: Iterable[str] = (), others: Mapping[str, str] | None = None
) -> list[Rule]:
    """The rights of the roles on the streams' topics and their queries' ``results``; the rest is denied.

    ``others``: topics that others fill, which are read only -> the consumer group that a stream begins at, or
    "".
    """
    rules: list[Rule] = []

    def allow(role: str, kind: str, name: str, operations: str, prefixed: bool = False) -> None:
        rules.extend(
            Rule(kafka_user(role), kind, name, prefixed, operation) for operation in operations.split()
        )

    # Two streams may read one topic, and Kafka refuses a right that is asked for twice.
    own = dict.fromkeys(topics)
    for topic in own:
        # Airflow asks whether offsets that the consumer recorded as without a record have none.
        allow("airflow", "topic", topic, "CREATE ALTER DESCRIBE ALTER_CONFIGS DESCRIBE_CONFIGS READ")
        allow("producer", "topic", topic, "WRITE DESCRIBE READ")
        allow("consumer", "topic", topic, "READ DESCRIBE")
        allow("observer", "topic", topic, "DESCRIBE DESCRIBE_CONFIGS")
        allow("reader", "topic", topic, "READ DESCRIBE")
    for topic, group in (others or {}).items():
        if topic in own:
            continue
        allow("airflow", "topic", topic, "DESCRIBE DESCRIBE_CONFIGS READ")
        # Whether compaction explains what is absent.
        allow("consumer", "topic", topic, "READ DESCRIBE DESCRIBE_CONFIGS")
        # Kafka names the producer of an open transaction to who may read.
        allow("observer", "topic", topic, "DESCRIBE DESCRIBE_CONFIGS READ")
        allow("reader", "topic", topic, "READ DESCRIBE")
        if group:
            allow("consumer", "group", group, "DESCRIBE")
    for topic in dict.fromkeys(results):
        # Airflow checks their content. Setting a group's offsets requires Read on the topic.
        allow("airflow", "topic", topic, "CREATE ALTER DESCRIBE ALTER_CONFIGS DESCRIBE_CONFIGS READ")
        allow("consumer", "topic", topic, "WRITE DESCRIBE READ")
        allow("reader", "topic", topic, "READ DESCRIBE")
    progress = PROGRESS_TOPIC.name
    allow("airflow", "topic", progress, "CREATE ALTER DESCRIBE ALTER_CONFIGS DESCRIBE_CONFIGS READ")
    allow("consumer", "topic", progress, "WRITE DESCRIBE")
    allow("reader", "topic", progress, "READ DESCRIBE")
    positions = POSITIONS_TOPIC.name
    allow("airflow", "topic", positions, "CREATE ALTER DESCRIBE ALTER_CONFIGS DESCRIBE_CONFIGS READ")
    allow("producer", "topic", positions, "WRITE DESCRIBE READ")
    allow("consumer", "transactional_id", "sluice-", "WRITE DESCRIBE", prefixed=True)
    allow("producer", "transactional_id", TRANSACTIONAL_IDS, "WRITE DESCRIBE", prefixed=True)
    for role in ("airflow", "observer"):
        allow(role, "group", "sluice-", "DESCRIBE", prefixed=True)
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


def s3_policies(checkpoints: bool = False, rest_catalog: bool = False) -> dict[str, dict[str, Any]]:
    """One policy per role, and with a ``rest_catalog`` one for it. Only ``maintenance`` may delete, and only
    current versions of tables' files; and, with ``checkpoints`` in their bucket, ``consumer`` old ones."""
    written = [*_READ, *_WRITE, "s3:DeleteObject"]
    kept = [(_LIST, [CHECKPOINTS]), (written, [f"{CHECKPOINTS}/*"])] if checkpoints else []
    ledger, lake = f"{WAREHOUSE}/ledger/*", f"{WAREHOUSE}/lake/*"
    # The files of queries: the prefixes of sinks begin with files/.
    files = f"{WAREHOUSE}/files/*"
    # It writes what a table is, and reads no row.
    metadata = [(_LIST, [WAREHOUSE]), (_READ + _WRITE, [f"{WAREHOUSE}/lake/*/metadata/*"])]
    catalog = {"catalog": _policy(*metadata)} if rest_catalog else {}
    deletable = ("data", "metadata", *DOCUMENTS)
    return catalog | {
        "airflow": _policy(
            (_LIST + _VERSIONS, [WAREHOUSE, SOURCE]),
            (_READ, [f"{WAREHOUSE}/*", f"{SOURCE}/*"]),
            (["s3:PutObject"], [ledger]),
        ),
        "producer": _policy(
            (_LIST, [WAREHOUSE, SOURCE]),
            (_READ, [f"{SOURCE}/*", ledger, lake]),
            (_WRITE, [lake]),
            # Schemas with the new columns of files.
            (["s3:PutObject"], [f"{WAREHOUSE}/ledger/{SCHEMAS}/*"]),
        ),
        "consumer": _policy(
            (_LIST, [WAREHOUSE]),
            (_READ + _WRITE, [lake, files]),
            # The plans of changes.
            (_READ, [f"{WAREHOUSE}/ledger/*/change.json"]),
            # Schemas of a registry, which are kept for ever.
            ([*_READ, "s3:PutObject"], [f"{WAREHOUSE}/ledger/{SCHEMAS}/*"]),
            *kept,
        ),
        "reader": _policy((_LIST, [WAREHOUSE]), (_READ, [lake, files])),
        "observer": _policy((_LIST, [WAREHOUSE]), (_READ, [lake, ledger])),
        # Airflow reads and decides; not loaded/, the tables' record of loaded rows.
        "maintenance": _policy((["s3:DeleteObject"], [f"{WAREHOUSE}/lake/*/{part}/*" for part in deletable])),
    }


# Who may change tables in the catalog, and who may only read it: in PostgreSQL as in a REST catalog.
CATALOG_WRITERS, CATALOG_READERS = ("producer", "consumer"), ("airflow", "reader", "observer")


def catalog_tokens(secrets: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The tokens that a REST catalog lets in: `reader` or `writer` -> role -> token."""
    rights = {"reader": CATALOG_READERS, "writer": CATALOG_WRITERS}
    return {
        right: {role: secrets[f"catalog_{role}"] for role in allowed} for right, allowed in rights.items()
    }


def _policy(*grants: tuple[list[str], list[str]]) -> dict[str, Any]:
    statements = [
        {"Effect": "Allow", "Action": actions, "Resource": [f"arn:aws:s3:::{name}" for name in resources]}
        for actions, resources in grants
    ]
    return {"Version": "2012-10-17", "Statement": statements}


def documents(
    home: StackDir,
    network: Network,
    secrets: Mapping[str, str],
    feeds: Mapping[str, str] | None = None,
    registry: bool = False,
    rest_catalog: bool = False,
) -> dict[str, Document]:
    """The platform file of each role, as plain data.

    `feeds`: stream → another address of its feed, for the producer and for Airflow, whose loads report it.
    `registry`, `rest_catalog`: whether the stack runs a schema registry, and Iceberg's REST catalog, through
    which roles find tables then.
    """
    files: dict[str, Document] = {}
    for role in ROLES:
        files[role] = {
            "role": role,
            "kafka": {
                "bootstrap_servers": network.bootstrap_servers,
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "username": kafka_user(role),
                "password": secrets[f"kafka_{role}"],
            },
            "s3": {
                "endpoint": f"http://{network.address('minio')}",
                "region": "us-east-1",
                "access_key": f"sluice-{role}",
                "secret_key": secrets[f"minio_{role}"],
                "path_style": True,
            },
            "lake": {
                "warehouse": f"s3://{WAREHOUSE}/lake",
                "ledger": f"s3://{WAREHOUSE}/ledger",
                "catalog": _catalog_section(role, network, secrets, rest_catalog),
            },
            "source": {"bucket": SOURCE},
            "checkpoints": {"root": str(home.checkpoints)},
        }
    for role in ("airflow", "observer"):
        files[role]["supervisor"] = {
            "url": f"http://{network.address('supervisor')}/RPC2",
            "username": "sluice",
            "password": secrets["supervisor"],
        }
        files[role]["observer"] = {
            "url": f"http://{network.address('observer')}",
            "token": secrets["observer"],
        }
    checks = f"http://{network.address('checks')}"
    files["airflow"]["metrics"] = {"token": secrets["metrics"], "checks_url": checks}
    if feeds:
        for role in ("producer", "airflow"):
            files[role]["feeds"] = dict(feeds)
    if registry:
        for role in REGISTRY_ROLES:
            files[role]["registry"] = registry_section(role, network, secrets)
    return files


def _catalog_section(role: str, network: Network, secrets: Mapping[str, str], rest: bool) -> Document:
    """[lake.catalog] of a role's platform file."""
    if rest:
        return {
            "type": REST,
            "uri": f"http://{network.address('rest_catalog')}",
            "token": secrets[f"catalog_{role}"],
            **({} if is_loopback(network.host("rest_catalog")) else {"plain_text": True}),
        }
    return {
        "type": SQL,
        "uri": f"postgresql://{network.address('postgres')}/lake",
        "username": f"lake_{role}",
        "password": secrets[f"lake_{role}"],
        **({} if is_loopback(network.host("postgres")) else {"sslmode": DISABLE}),
    }


# Sections of a platform file that SLUICE_EXTERNAL may leave out, beside the supervisor's.
DEFAULTED = ("source", "checkpoints", "feeds", "metrics", "observer")


def external(embedded: dict[str, Document], folder: Path) -> dict[str, Document]:
    """The platform files with an external Kafka and S3, from `<role>.toml` in `folder` (SLUICE_EXTERNAL).

    `kafka`, `s3` and `lake` are required; the catalog in `lake` and DEFAULTED default to
    those of `embedded`. The supervisor is always the embedded one. Raises UsageError.
    """
    files: dict[str, Document] = {}
    for role, ours in embedded.items():
        path = folder / f"{role}.toml"
        try:
            theirs = tomllib.loads(path.read_text())
        except OSError as error:
            raise UsageError(
                f"SLUICE_EXTERNAL: {path}: {error.strerror}. Fix: write a file for each role"
            ) from error
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"SLUICE_EXTERNAL: {path}: not valid TOML: {error}") from error
        for section in ("kafka", "s3", "lake"):
            if not isinstance(theirs.get(section), dict):
                raise UsageError(
                    f"SLUICE_EXTERNAL: {path}: [{section}] is missing. Fix: add the keys from the README"
                )
        check_no_variables(theirs, f"SLUICE_EXTERNAL: {path}:")
        # Values of the top level first, as TOML requires.
        defaults = {name: ours[name] for name in DEFAULTED if name in ours}
        supervisor = {"supervisor": ours["supervisor"]} if "supervisor" in ours else {}
        # An own catalog is as the file declares it: nothing says that its network may be trusted.
        lake = {"lake": {"catalog": ours["lake"]["catalog"]} | theirs["lake"]}
        files[role] = {"role": role} | theirs | {"role": role} | lake | supervisor
        files[role] |= {name: value for name, value in defaults.items() if name not in theirs}
        if isinstance(theirs.get("metrics"), dict) and "metrics" in ours:
            # The embedded process of checks runs, with their token.
            files[role]["metrics"] = ours["metrics"] | theirs["metrics"]
    return files


def check_no_variables(value: Any, where: str) -> None:
    """Raise UsageError for a reference to a variable: the programs of a stack have an environment of their
    own, which is written to a file."""
    if is_reference(value, ENV):
        raise UsageError(
            f"{where} is a reference to an environment variable, and the stack's programs have an "
            'environment of their own. Fix: write the text to a file of mode 600, and { file = "/…" } here'
        )
    if isinstance(value, Mapping):
        for key, element in value.items():
            check_no_variables(element, f"{where} {key}")


def files(folder: Path, documents: Mapping[str, Document]) -> dict[Path, str]:
    """`<role>.toml` of each role."""
    return {folder / f"{role}.toml": dump(document) for role, document in documents.items()}


def write(folder: Path, documents: Mapping[str, Document]) -> bool:
    """Write `<role>.toml`, mode 600; whether one changed."""
    return write_files(files(folder, documents))
