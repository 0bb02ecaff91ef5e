"""Least privilege of each role: Kafka ACLs, S3 policies, platform files."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from local.base import UsageError
from local.runtime.home import StackDir, write_files
from local.runtime.ports import Network
from local.runtime.registry_access import registry_section
from local.runtime.secrets import REGISTRY_ROLES
from sluice.config.platform import ROLES
from sluice.config.platform_sections.catalog import REST, SQL
from sluice.config.postgresql import DISABLE
from sluice.config.reading.references import ENV, is_reference
from sluice.config.reading.toml import dump
from sluice.config.reading.urls import is_loopback
from sluice.connection_check.rights.kafka import kafka_user
from sluice.connection_check.rights.s3 import LISTING, READING, WRITING, Grant, Places, s3_grants
from sluice.connection_check.rights.tables import CATALOG_READERS, CATALOG_WRITERS
from sluice.core.json_record import Document

WAREHOUSE = "warehouse"
SOURCE = "source"
# The bucket of checkpoints, where no volume is shared.
CHECKPOINTS = "checkpoints"
# The login of the REST catalog in MinIO.
CATALOG_USER = "sluice-catalog"
# On a cluster, a Secret with the password of each role under its name, for Strimzi's users: those of the
# platform files.
KAFKA_PASSWORDS = "sluice-kafka-passwords"


def s3_policies(checkpoints: bool = False, rest_catalog: bool = False) -> dict[str, dict[str, Any]]:
    """One policy per role, and with a ``rest_catalog`` one for it. Only ``maintenance`` may delete, and only
    current versions: of tables' files, documents of batches, records of checks, and what unfinished
    verifications left; and, with ``checkpoints`` in their bucket, ``consumer`` old ones."""
    places = Places(
        f"{WAREHOUSE}/lake",
        f"{WAREHOUSE}/ledger",
        SOURCE,
        # The prefixes of sinks begin with files/.
        files=(f"{WAREHOUSE}/files",),
        checkpoints=CHECKPOINTS if checkpoints else "",
    )
    # It writes what a table is, and reads no row.
    catalog = [
        Grant(LISTING, (WAREHOUSE,)),
        Grant((*READING, *WRITING), (f"{WAREHOUSE}/lake/*/metadata/*",)),
    ]
    granted = ({"catalog": catalog} if rest_catalog else {}) | s3_grants(places)
    return {role: _policy(grants) for role, grants in granted.items()}


def catalog_tokens(secrets: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The tokens that a REST catalog lets in: `reader` or `writer` -> role -> token."""
    rights = {"reader": CATALOG_READERS, "writer": CATALOG_WRITERS}
    return {
        right: {role: secrets[f"catalog_{role}"] for role in allowed} for right, allowed in rights.items()
    }


def _policy(grants: Iterable[Grant]) -> dict[str, Any]:
    statements = [
        {
            "Effect": "Allow",
            "Action": list(grant.actions),
            "Resource": [f"arn:aws:s3:::{name}" for name in grant.resources],
        }
        for grant in grants
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
                **network.plain_text("kafka"),
            },
            "s3": {
                "endpoint": f"http://{network.address('minio')}",
                "region": "us-east-1",
                "access_key": f"sluice-{role}",
                "secret_key": secrets[f"minio_{role}"],
                "path_style": True,
                **network.plain_text("minio"),
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
            **network.plain_text("supervisor"),
        }
        files[role]["observer"] = {
            "url": f"http://{network.address('observer')}",
            "token": secrets["observer"],
            **network.plain_text("observer"),
        }
    files["airflow"]["metrics"] = {
        "token": secrets["metrics"],
        "checks_url": f"http://{network.address('checks')}",
        **network.plain_text("checks"),
    }
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
            **network.plain_text("rest_catalog"),
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
