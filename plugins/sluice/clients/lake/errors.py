"""The errors of PyIceberg, Arrow and boto3, of files of tables, as Sluice's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError
from pyiceberg.exceptions import NoSuchTableError

from sluice.clients.catalogs.errors import missing
from sluice.clients.s3.errors import DENIED, denied, error_code, not_asked
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, Unreachable
from sluice.core.tables.file_removal import missing_message


@contextmanager
def asking(what: str) -> Iterator[None]:
    """PyIceberg's, Arrow's and boto3's errors of a table's files as Missing (no such table), Refused (a file
    of it is gone, or access is denied) or Unreachable."""
    try:
        yield
    except NoSuchTableError as error:
        raise missing(what) from error
    except FileNotFoundError as error:
        message = f"{what}: {missing_message(str(error))}"
        raise Refused(message, ErrorCode.LAKE_FILE_MISSING) from error
    except ClientError as error:
        # Not Missing, also without a bucket: a missing table is one that is not made yet.
        if error_code(error) in DENIED:
            raise denied(what, error) from error
        raise Unreachable(f"{what}: {error}", ErrorCode.S3_UNREACHABLE) from error
    except BotoCoreError as error:
        raise not_asked(what, error) from error
    except OSError as error:
        raise Unreachable(f"{what}: {error}", ErrorCode.S3_UNREACHABLE) from error
