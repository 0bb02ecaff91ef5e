"""The stack directory: its folders, and the ports and secrets that are kept after the first start."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from local.base import UsageError, fail, locked
from local.runtime.secrets import complete_secrets
from sluice.config.reading.files import write_private


class StackDir:
    """Folders of one stack, all private to the user (mode 700).

    `id`: 12 hex digits that distinguish its processes and data from another stack's. `connections`: the
    exported Airflow connections. `is_mounted`: the root is a pod's own volume, which belongs to root.
    """

    def __init__(self, root: Path, is_mounted: bool = False) -> None:
        self.root, self.is_mounted = root, is_mounted
        self.id = hashlib.sha256(str(root).encode()).hexdigest()[:12]
        self.conf, self.logs, self.data = root / "conf", root / "logs", root / "data"
        self.platform, self.connections = root / "platform", root / "connections"
        self.checkpoints, self.airflow, self.tmp = root / "checkpoints", root / "airflow", root / "tmp"
        self.state_file, self.secrets_file = root / "stack.json", root / "secrets.json"

    def prepare(self) -> None:
        """Create the folders. Raises UsageError if that fails."""
        folders = (self.root, self.conf, self.logs, self.data, self.platform, self.connections)
        try:
            for folder in (*folders, self.checkpoints, self.airflow, self.tmp):
                folder.mkdir(parents=True, exist_ok=True)
                if folder != self.root or not self.is_mounted:
                    folder.chmod(0o700)
        except OSError as error:
            raise UsageError(
                f"{error.filename}: {error.strerror}. Fix: set SLUICE_HOME to a writable folder"
            ) from error

    def locked(self) -> AbstractContextManager[None]:
        """Hold the stack's lock. Raises UsageError if another command holds it."""
        busy = UsageError(f"another `make up`, `down` or `destroy` uses {self.root}. Fix: wait for it")
        return locked(self.root / "lock", partial(fail, busy))

    def state(self) -> dict[str, Any]:
        """The values that are kept between starts; empty before the first."""
        return _read_json(self.state_file)

    def remember(self, **items: Any) -> None:
        """Update the state."""
        write_private(self.state_file, json.dumps({**self.state(), **items}, indent=2) + "\n")

    def secrets(self) -> dict[str, str]:
        """The passwords, generated at the first call; `install` identifies this set of data."""
        stored = _read_json(self.secrets_file)
        complete = complete_secrets(stored)
        if complete != stored:
            write_private(self.secrets_file, json.dumps(complete, indent=2) + "\n")
        return complete


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UsageError(f"{path} is not JSON ({error}). Fix: restore it, or make destroy") from error


def java_properties(settings: Mapping[str, str]) -> str:
    """A file's text as java.util.Properties reads it."""
    return "".join(f"{key}={value}\n".replace("\\", "\\\\") for key, value in settings.items())


def write_files(files: Mapping[Path, str]) -> bool:
    """Write files of mode 600; whether one changed."""
    changed = [write_private(path, text) for path, text in files.items()]
    return any(changed)
