"""Texts of declarations, and private files."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from sluice.config.reading.toml import ConfigError
from sluice.config.reading.values import shown_path

# A declaration's longest file: more is a mistake, and would be read by every process.
MAX_BYTES = 1 << 20


class Stamp(NamedTuple):
    """What of a file changes with its content."""

    path: str
    """As it was asked for."""
    number: int = 0
    """Its inode: another one for a file that replaced it."""
    modified: int = 0
    """In ns since 1970: copies and checkouts may keep it."""
    changed: int = 0
    """In ns since 1970: no program can keep it, but not every file system has it."""
    size: int = 0
    """In bytes."""


def declared_text(path: Path) -> str:
    """The text of a declaration. Raises ConfigError if it cannot be read, which never blocks."""
    try:
        return regular(path)[0].decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{shown_path(path)}: is not UTF-8: {error}. Fix: save it as UTF-8") from error
    # ValueError: a NUL character in the path.
    except (OSError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"{shown_path(path)}: cannot be read: {reason}. Fix: put a readable file there"
        ) from error


def regular(path: Path | str) -> tuple[bytes, bool]:
    """A file's content, and whether other users may read or change it. Never blocks.

    Raises ConfigError for what is no file, and for a longer one than MAX_BYTES, and OSError.
    """
    # Not waiting: a pipe would block until another process writes to it.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError(f"{shown_path(path)}: is no file. Fix: put a file with that name there")
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{shown_path(path)}: is larger than {MAX_BYTES >> 20} MiB. Fix: make it smaller")
    return content, _is_open(found)


def stamp_of(path: str) -> Stamp:
    """A file that cannot be read is one of no bytes, as who reads it says."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a text
    except (OSError, ValueError):
        return Stamp(path)
    return Stamp(path, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)


def read(variable: str, name: str, needed: str, environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Path and text of ``<name>.toml`` in the folder that ``variable`` names; ``needed``: by whom.

    Raises ConfigError if the variable is not set, or the file is missing, unreadable or open to other users.
    """
    folder = (os.environ if environ is None else environ).get(variable)
    if not folder:
        raise ConfigError(f"{variable} is not set. Fix: set it to the folder that holds {name}.toml")
    path = Path(folder) / f"{name}.toml"
    try:
        if _is_open(path.stat()):
            raise ConfigError(
                f"{path}: other users may read it and it holds passwords. Fix: chmod 600 {path}"
            )
        return str(path), path.read_text()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; {needed}") from error


def write_private(path: Path, text: str) -> bool:
    """Write a file of mode 600 atomically, and its folder if there is none; whether it changed. Of concurrent
    writers the last one wins."""
    content = text.encode()
    if is_private(path, text):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    # Its mode is 600, whatever the umask.
    descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(part).rename(path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
    return True


def is_private(path: Path, text: str) -> bool:
    """Whether :func:`write_private` would change nothing."""
    return path.exists() and stat.S_IMODE(path.stat().st_mode) == 0o600 and path.read_bytes() == text.encode()


def _is_open(found: os.stat_result) -> bool:
    """Whether users other than the reader may read a file, or change it.

    Kubernetes mounts a Secret as root's, readable for the pod's group, in which only its user is.
    """
    is_mounted = found.st_uid == 0 != os.getuid() and found.st_gid in {os.getgid(), *os.getgroups()}
    return bool(found.st_mode & (0o037 if is_mounted else 0o077))
