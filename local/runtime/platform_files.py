"""The platform files: one TOML per role with exactly what that role may know."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from local.errors import Problem
from local.runtime.access import SOURCE, WAREHOUSE, kafka_user
from local.runtime.home import ROLES, Home, write_private
from local.runtime.ports import HOST

Document = dict[str, Any]


def documents(
    home: Home,
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
    Raises Problem naming the file and what is missing in it.
    """
    made: dict[str, Document] = {}
    for role, mine in ours.items():
        path = folder / f"{role}.toml"
        try:
            theirs = tomllib.loads(path.read_text())
        except OSError as error:
            raise Problem(f"SLUICE_EXTERNAL: {path}: {error.strerror}; each role needs its file") from error
        except tomllib.TOMLDecodeError as error:
            raise Problem(f"SLUICE_EXTERNAL: {path}: not valid TOML: {error}") from error
        for section in ("kafka", "s3", "lake"):
            if not isinstance(theirs.get(section), dict):
                raise Problem(f"SLUICE_EXTERNAL: {path}: [{section}] is missing; see the README for its keys")
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
