"""A login that a system refuses, behind whatever a job failed with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import LOGINS, code_of
from sluice.core.errors import ClientError
from spark_jobs.common.spark.failures import Fenced, Unrecoverable, known


@contextmanager
def explained_by(ask: Callable[[], ClientError | None]) -> Iterator[None]:
    """Raises what ``ask`` finds, the system's refusal, instead of what it led to; the error itself if it
    finds none, or if another system's refusal is known already."""
    try:
        yield
    except (Fenced, ConfigError, Unrecoverable):
        raise
    except Exception as error:
        if code_of(known(error)) in LOGINS:
            raise
        if found := ask():
            raise found from error
        raise
