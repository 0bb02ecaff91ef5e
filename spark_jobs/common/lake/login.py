"""A login that the catalog refuses, behind whatever a stream's process failed with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager

from sluice.config.platform import Platform
from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import LOGINS, ErrorCode, code_of
from sluice.core.errors import ClientError, Missing
from spark_jobs.common.spark.failures import CATALOG_CLIENT, Fenced, Unrecoverable, known

# A connection of Java's that ended while it began: which side did not like the other is in no text of it, as
# with TLS 1.3 the server answers to a certificate when the client writes already.
_ENDED = re.compile(
    r"java\.net\.SocketException|javax\.net\.ssl\.SSL\w*Exception|java\.io\.(?:EOF|FileNotFound)Exception|"
    # MariaDB's driver, of a CA's file that is not there.
    r"URI is not absolute"
)


@contextmanager
def explained(platform: Platform) -> Iterator[None]:
    """Raises the refusal, with the server's words, instead of what it led to. To a catalog to which requests
    are signed, Iceberg's Java client does not compare clocks, and says of keys that it does not find only
    where it has looked."""
    try:
        yield
    except (Fenced, ConfigError, Unrecoverable):
        raise
    except Exception as error:
        if code_of(known(error)) in LOGINS:
            raise
        is_open = is_unexplained(error)
        found = refusal(platform) if is_open or platform.lake.catalog.signing_name else None
        if found is None or not (is_open or code_of(found) is ErrorCode.CATALOG_LOGIN):
            raise
        raise found from error


def is_unexplained(error: Exception) -> bool:
    """Whether a connection to the catalog failed, and the text does not tell why."""
    text = str(error)
    return known(error) is error and bool(CATALOG_CLIENT.search(text) and _ENDED.search(text))


def refusal(platform: Platform) -> ClientError | None:
    """Why a new connection to the catalog fails, by Python's client; None if it does not."""
    from sluice.clients.catalogs.errors import asking
    from sluice.clients.catalogs.pointers import opened

    what = "the lake's catalog"
    try:
        with closing(opened(platform.lake.pyiceberg(platform.s3))) as pointers, asking(what):
            pointers.find("sluice.none")
    except Missing:
        # It was asked, and answered.
        return None
    except ClientError as error:
        return error
    return None
