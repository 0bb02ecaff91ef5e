"""A login that a catalog refuses to which requests are signed, behind whatever a job failed with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sluice.clients.catalogs.errors import LoginRefused
from sluice.clients.catalogs.pointers import opened
from sluice.config.platform import Platform
from sluice.config.reading.toml import ConfigError
from sluice.core.errors import ClientError
from spark_jobs.common.spark.failures import Fenced, Unrecoverable


@contextmanager
def explained(platform: Platform) -> Iterator[None]:
    """Raises LoginRefused, with AWS's words and the clock that is wrong, instead of what it led to: Iceberg's
    Java client does not compare clocks, and says of keys that it does not find only where it has looked."""
    try:
        yield
    except (Fenced, ConfigError, Unrecoverable, LoginRefused):
        raise
    except Exception as error:
        if platform.lake.catalog.signing_name and (found := refusal(platform)):
            raise found from error
        raise


def refusal(platform: Platform) -> LoginRefused | None:
    """Why a new process would be refused; None if it would not, or nothing answers."""
    try:
        opened(platform.lake.pyiceberg(platform.s3)).close()
    except LoginRefused as error:
        return error
    except ClientError:
        return None
    return None
