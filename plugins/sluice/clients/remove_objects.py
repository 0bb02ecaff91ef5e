"""Delete objects: ``python -m sluice.clients.remove_objects <bucket>``, with a key as JSON per line of stdin.

A process of its own, so that no other has the login of role ``maintenance``, which alone may delete. That
role may do nothing else: its caller has decided what to delete.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sluice.clients.errors import Missing, Refused, Unreachable
from sluice.clients.s3 import DENIED, asking
from sluice.io.s3 import connect
from sluice.model import exits
from sluice.model.error_codes import ErrorCode, code_of, with_code
from sluice.model.spec import platform as platforms
from sluice.model.spec.config import ConfigError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ROLE = "maintenance"
# S3's limit per request.
BATCH = 1000


def remove(client: S3Client, bucket: str, keys: Sequence[str]) -> None:
    """Delete the current version of each object; one that does not exist is no error.

    Raises Refused or Unreachable with the first key that S3 did not delete; others may be deleted.
    """
    for start in range(0, len(keys), BATCH):
        with asking(f"deleting from s3://{bucket}"):
            answer = client.delete_objects(
                Bucket=bucket,
                Delete={"Objects": [{"Key": key} for key in keys[start : start + BATCH]], "Quiet": True},
            )
        for error in answer.get("Errors", []):
            code = str(error.get("Code"))
            message = f"s3://{bucket}/{error.get('Key')} was not deleted: {code}: {error.get('Message')}"
            if code in DENIED:
                raise Refused(
                    f"{message}. Fix: grant role {ROLE} s3:DeleteObject there", ErrorCode.S3_PERMISSION
                )
            raise Unreachable(message, ErrorCode.S3_UNREACHABLE)


def main(bucket: str) -> int:
    """Delete the objects on stdin; return the exit code.

    78: another try finds the same error; 1: another may succeed. The last line of stderr is then the error.
    """
    try:
        remove(connect(platforms.load(ROLE).s3), bucket, [json.loads(line) for line in sys.stdin])
    except (ConfigError, Missing, Refused, Unreachable) as error:
        print(with_code(code_of(error), error), file=sys.stderr)  # noqa: T201
        return 1 if isinstance(error, Unreachable) else exits.CONFIGURATION
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
