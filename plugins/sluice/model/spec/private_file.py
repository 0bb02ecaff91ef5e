"""Files that hold secrets: in a folder that a variable names, and readable for one user alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sluice.model.spec.config import ConfigError


def read(variable: str, name: str, needed: str, environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """The path and the text of the file ``<name>.toml`` in the folder that ``variable`` names.

    ``needed`` says, for the message where it is missing, who needs or writes it. Raises ConfigError when the
    variable is not set, or the file is missing, unreadable, or open to other users.
    """
    folder = (os.environ if environ is None else environ).get(variable)
    if not folder:
        raise ConfigError(f"{variable} is not set; set it to the folder that holds {name}.toml")
    path = Path(folder) / f"{name}.toml"
    try:
        if path.stat().st_mode & 0o077:
            raise ConfigError(f"{path}: other users may read it and it holds passwords; chmod 600 {path}")
        return str(path), path.read_text()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; {needed}") from error
