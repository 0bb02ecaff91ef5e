"""The errors of PyIceberg, SQLAlchemy, Arrow and boto3 as Sluice's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError
from botocore.exceptions import ClientError as S3Error
from pyiceberg.exceptions import NoSuchTableError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from sluice.clients.s3.errors import DENIED, denied, error_code
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused, Unreachable
from sluice.core.tables.file_removal import missing_message


def missing(what: str) -> Missing:
    message = (
        f"{what} does not exist; the stream's consumer creates it. Fix: start the consumer; if it had rows: "
        "docs/operating.md, Table lost by the catalog"
    )
    return Missing(message, ErrorCode.TABLE_NOT_FOUND)


@contextmanager
def asking(what: str) -> Iterator[None]:
    """PyIceberg's, SQLAlchemy's, Arrow's and boto3's errors as Missing (no such table), Refused (a file of it
    is gone, or access is denied) or Unreachable; no connection string."""
    try:
        yield
    except NoSuchTableError as error:
        raise missing(what) from error
    except DBAPIError as error:
        reason = " ".join(str(error.orig).split())
        if "iceberg_tables" in reason and ("does not exist" in reason or "no such table" in reason):
            message = f"{what}: the catalog's database has no tables yet"
            raise Missing(message, ErrorCode.TABLE_NOT_FOUND) from error
        message = f"{what}: the catalog's database does not answer: {reason}"
        raise Unreachable(message, ErrorCode.CATALOG_UNREACHABLE) from error
    except PoolTimeout as error:
        # Each connection waits for an answer.
        message = f"{what}: the catalog's database does not answer: no connection is free"
        raise Unreachable(message, ErrorCode.CATALOG_UNREACHABLE) from error
    except FileNotFoundError as error:
        message = f"{what}: {missing_message(str(error))}"
        raise Refused(message, ErrorCode.LAKE_FILE_MISSING) from error
    except S3Error as error:
        # Not Missing, also without a bucket: a missing table is one that is not made yet.
        if (code := error_code(error)) in DENIED:
            raise denied(what, code) from error
        raise Unreachable(f"{what}: {error}", ErrorCode.S3_UNREACHABLE) from error
    except (OSError, BotoCoreError) as error:
        raise Unreachable(f"{what}: {error}", ErrorCode.S3_UNREACHABLE) from error
