"""`sluice put`: upload a file to the source bucket, for a load to read."""

from __future__ import annotations

from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from sluice.cli.base import UsageError
from sluice.cli.installation import Installation, check_running


def main(installation: Installation, file: Path, key: str) -> int:
    """Upload ``file`` as ``key``; print its address, size and version.

    Raises UsageError if the file cannot be read, or if the bucket does not accept it.
    """
    path = file.expanduser()
    if not path.is_file():
        raise UsageError(f"{file} is no file. Fix: give its path")
    if not key:
        raise UsageError("the key is empty. Fix: give one, as rides/rides.csv")
    check_running(installation)
    bucket = installation.systems("airflow").platform.source.bucket
    try:
        with path.open("rb") as body:
            version = installation.source_s3().put_object(Bucket=bucket, Key=key, Body=body).get("VersionId")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error}. Fix: check its permissions") from error
    except (BotoCoreError, ClientError) as error:
        fix = "Fix: make status; on your own S3 role airflow needs PutObject in the source bucket"
        raise UsageError(f"s3://{bucket}/{key} cannot be written: {error}. {fix}") from error
    print(f"s3://{bucket}/{key}: {path.stat().st_size} bytes, version {version or 'none'}")
    return 0
