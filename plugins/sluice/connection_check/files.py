"""The files that a platform file names: certificates, keys, tokens, a kubeconfig. Whether this process reads
them, since another role's are often for that role alone."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluice.config.platform import Platform

# Ends of the keys that are a file's path, in any section.
_PATHS = ("_location", "_file", "sslrootcert", "sslcert", "sslkey", "kubeconfig")


def named(platform: Platform) -> list[str]:
    """Their paths, each once."""
    # OAUTHBEARER's is an address, file:///…
    return list(dict.fromkeys([*_named(platform), *filter(None, [platform.kafka.token_file])]))


def _named(section: object) -> Iterator[str]:
    for one in dataclasses.fields(section):  # type: ignore[arg-type]
        value = getattr(section, one.name)
        if dataclasses.is_dataclass(value):
            yield from _named(value)
        elif isinstance(value, str) and value and one.name.endswith(_PATHS):
            yield value


def unreadable(platform: Platform) -> list[str]:
    """Those that are not there, or not for this process, each with the system's reason."""
    return [f"{path}: {reason}" for path in named(platform) if (reason := _reason(path))]


def _reason(path: str) -> str:
    try:
        # Not waiting: a pipe would block until another process writes to it.
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""


def is_of_another(error: BaseException | None) -> bool:
    """Whether a declaration could not be read for a file that is not there, or not for this process."""
    while error is not None:
        if isinstance(error, PermissionError | FileNotFoundError):
            return True
        error = error.__cause__
    return False
