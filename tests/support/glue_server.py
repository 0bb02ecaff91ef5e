"""AWS Glue by ministack, on loopback, in memory: it refuses an update of a table's stale version."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import httpx

from local.runtime.ports import HOST
from local.runtime.supervisord import SERVICE_OPTIONS, Program
from local.setup.ministack import ensure_ministack
from sluice.clients.catalogs.glue import LOCATION, BoundedGlue

NAME = "glue"


def program(folder: Path, port: int) -> Program:
    folder.mkdir(parents=True, exist_ok=True)
    environment = {
        "BIND_HOST": HOST,
        "GATEWAY_PORT": str(port),
        "SERVICES": "glue",
        "LOG_LEVEL": "WARNING",
        # For its file of the process's number.
        "TMPDIR": str(folder),
    }
    return Program(NAME, [str(ensure_ministack())], environment, 30, folder, SERVICE_OPTIONS)


def probe(url: str) -> str:
    """Raises httpx.HTTPError if it does not answer."""
    httpx.get(f"{url}/_ministack/health", timeout=5, trust_env=False).raise_for_status()
    return "ready"


def restore(catalog: BoundedGlue, locations: Mapping[str, str]) -> None:
    """Set the metadata files of these tables, as who copies their entries back from an account's backup."""
    for name, location in locations.items():
        database, table = name.split(".")
        found = catalog.glue.get_table(DatabaseName=database, Name=table)["Table"]
        parameters = {**found["Parameters"], LOCATION: location}
        kept = {key: found[key] for key in ("TableType", "StorageDescriptor")}
        catalog.glue.update_table(
            DatabaseName=database, TableInput={"Name": table, "Parameters": parameters, **kept}
        )
