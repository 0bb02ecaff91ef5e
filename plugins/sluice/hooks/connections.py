"""An Airflow connection, handed to a process that runs outside Airflow."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from sluice.model.spec.config import ConfigError
from sluice.model.spec.connection import DIRECTORY_VARIABLE, Database


def write_connection_file(connection: str, database: Database) -> bool:
    """Write it to where ``database.load`` reads it: whole, or not at all, and readable for its user alone.

    Returns whether it was another before. Raises ConfigError where the folder is not named, or not there.
    """
    folder = os.environ.get(DIRECTORY_VARIABLE)
    if not folder or not Path(folder).is_dir():
        raise ConfigError(
            f"{DIRECTORY_VARIABLE} is {folder!r}, which is no folder; set it to one that Airflow's user and "
            "the streams' processes share, with mode 700"
        )
    path, text = Path(folder) / f"{connection}.toml", database.dump()
    if path.exists() and path.read_text() == text and not path.stat().st_mode & 0o077:
        return False
    # mkstemp makes it with mode 600.
    descriptor, new = tempfile.mkstemp(dir=folder, prefix=f".{connection}-")
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    Path(new).replace(path)
    return True
