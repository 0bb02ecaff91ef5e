"""The functions that a stream names in its declaration."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import spark_jobs
from sluice.config.reading.toml import ConfigError
from sluice.config.stream import StreamSpec


def function(spec: StreamSpec, reference: str) -> Callable[..., Any]:
    """Import ``module:function`` from the stream's folder.

    Raises ConfigError if the module has no such function; errors of the module's import are passed on.
    """
    module, _, name = reference.partition(":")
    # A stream may be in a folder of SLUICE_STREAMS.
    root = str(spec.folder.parent)
    if root not in spark_jobs.__path__:
        spark_jobs.__path__.append(root)
    path = f"spark_jobs.{spec.name}.{module}"
    if importlib.util.find_spec(path) is None:
        raise ConfigError(f"stream {spec.name!r}: {reference!r}: no {module}.py in {spec.folder}")
    candidate = getattr(importlib.import_module(path), name, None)
    if not callable(candidate):
        raise ConfigError(f"stream {spec.name!r}: {reference!r}: {module}.py has no function {name!r}")
    return candidate
