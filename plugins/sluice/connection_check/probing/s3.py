"""S3: each right asked by a request that changes nothing.

A read names a key or a version that does not exist; a write has a condition that cannot hold (``If-Match``
with the ETag of nothing), as has a delete (``If-Match`` with any object, where there is none); an upload that
is listed or ended does not exist. S3 checks the right first: it answers 403 without it, and 404 or 412 with
it. What is not there is told only to who may list the bucket, so without that right reading is not asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from sluice.clients.s3.errors import DENIED, denied, error_code, not_asked
from sluice.clients.s3.requests import Limits, connect
from sluice.config.platform_sections.s3 import S3
from sluice.connection_check.deadlines import ANSWER_SECONDS, CONNECT_SECONDS
from sluice.connection_check.probing import tls as handshakes
from sluice.connection_check.probing.tls import Tls
from sluice.connection_check.probing.web import ask_address
from sluice.connection_check.rights.s3 import (
    ABORT,
    DELETE,
    GET,
    GET_VERSION,
    LIST,
    LIST_UPLOADS,
    LIST_VERSIONS,
    LOCATION,
    ON_BUCKETS,
    PARTS,
    PUT,
    VERSIONING,
    Grant,
    Places,
    allows,
    bucket_of,
    samples,
)
from sluice.connection_check.rows import PENDING, Row, compared
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Unreachable
from sluice.core.http_dates import http_date
from sluice.core.messages import summarize

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

LIMITS = Limits(CONNECT_SECONDS, ANSWER_SECONDS, attempts=2)
AT_ONCE = 8
# In place of what a pattern of keys leaves open: no object has it in its name.
NAME = "sluice-check"
# No object's, since it is of no bytes' MD5.
_NO_ETAG = '"00000000000000000000000000000000"'
_NO_RIGHT = frozenset({"AccessDenied", "403", "AllAccessDisabled"})
# What is answered to who has the right.
_NOTHING_THERE = frozenset(
    {
        *("NoSuchKey", "NoSuchVersion", "NoSuchUpload", "404", "NotFound", "PreconditionFailed", "412"),
        "ConditionalRequestConflict",
    }
)
# The server does not know the request: it may have said so before it looked for the right.
_UNKNOWN = frozenset({"InvalidArgument", "MethodNotAllowed", "405", "NotImplemented", "501"})
_ON_OBJECTS = (GET, GET_VERSION, PUT, ABORT, PARTS, DELETE)


def login_of(s3: S3) -> str:
    """The kind of login and its name. A role that is assumed is what has the rights."""
    for key in ("role_arn", "profile", "web_identity_token_file"):
        if text := getattr(s3, key):
            return f"{key} {text}"
    return f"key {s3.access_key}" if s3.access_key else "AWS's default chain"


@dataclass(frozen=True)
class _Answer:
    """``is_there``: whether the right is; None: the server does not tell."""

    is_there: bool | None
    document: Any


def ask(s3: S3, places: Places, grants: dict[str, list[Grant]], rows: list[Row], *, all_needed: bool) -> None:
    """Fill the row. ``grants``: of all roles; ``all_needed``: whether optional ones are. Raises Refused for a
    login, Unreachable without an answer."""
    row = rows[0]
    address = s3.endpoint or f"https://s3.{s3.region}.amazonaws.com"
    tls = Tls.declared(s3)
    if not handshakes.look_at(row, address, tls):
        return
    if s3.sts_endpoint:
        rows.append(Row(row.role, "s3 sts_endpoint", s3.sts_endpoint, row.login, not_looked_at=PENDING))
        ask_address(s3.sts_endpoint, tls, rows[-1:])
    asking = _Asking(row, connect(s3, LIMITS))
    mine = grants.get(row.role, [])
    asked = list(_bucket_questions(grants)) + list(_object_questions(grants))
    wanted: list[tuple[str, str, bool]] = []
    for action, resource in asked:
        is_needed = allows(mine, action, resource, optional=all_needed)
        if is_needed or not allows(mine, action, resource):
            wanted.append((action, resource, is_needed))
    # One that stands still is asked once.
    found = {one: asking.ask(*one[:2]) for one in wanted[:1]}
    threads = ThreadPoolExecutor(AT_ONCE)
    try:
        found |= zip(wanted[1:], threads.map(lambda one: asking.ask(*one[:2]), wanted[1:]), strict=True)
    finally:
        threads.shutdown(cancel_futures=True)
    there = {(action, resource) for (action, resource, _), answer in found.items() if answer.is_there}
    told = [one for one in wanted if found[one].is_there is not None]
    if silent := [one for one in wanted if one not in told and one[2]]:
        names = [f"{action.removeprefix('s3:')} on {resource}" for action, resource, _ in silent]
        row.remarks.append(f"the server does not tell of rights: {summarize(names, 8)}")
    _compare(row, told, there)
    _check_versions(row, places, found)


def _bucket_questions(grants: dict[str, list[Grant]]) -> Iterable[tuple[str, str]]:
    everything = [grant for found in grants.values() for grant in found]
    buckets = dict.fromkeys(bucket_of(one) for grant in everything for one in grant.resources)
    return [(action, bucket) for bucket in buckets for action in sorted(ON_BUCKETS)]


def _object_questions(grants: dict[str, list[Grant]]) -> Iterable[tuple[str, str]]:
    everything = [grant for found in grants.values() for grant in found]
    return [(action, sample) for sample in samples(everything, NAME) for action in _ON_OBJECTS]


def _compare(row: Row, wanted: Sequence[tuple[str, str, bool]], there: set[tuple[str, str]]) -> None:
    asked, untold = [], []
    for action, resource, is_needed in wanted:
        is_there = (action, resource) in there
        is_listed = (LIST, bucket_of(resource)) in there
        if is_needed and not is_there and action in (GET, GET_VERSION) and not is_listed:
            untold.append(resource)
            continue
        # MinIO shows versions to who may list.
        if is_there and not is_needed and action == LIST_VERSIONS and is_listed:
            continue
        # MinIO gives the version `null`, of an object without versions, to who may get the object.
        if is_there and not is_needed and action == GET_VERSION and (GET, resource) in there:
            continue
        asked.append((f"{action.removeprefix('s3:')} on {resource}", is_needed, is_there))
    row.rights = compared(asked)
    if untold:
        row.remarks.append(
            f"reading is not asked, since ListBucket is missing: {', '.join(dict.fromkeys(untold))}"
        )


def _check_versions(row: Row, places: Places, found: dict[tuple[str, str, bool], _Answer]) -> None:
    """Both buckets must keep versions; one that is not listed has none, by declaration."""
    kept = {bucket_of(places.source), *([bucket_of(places.lake)] if places.is_listed else [])}
    for (action, bucket, _), answer in found.items():
        if action == VERSIONING and answer.is_there and bucket in kept:
            status = answer.document.get("Status", "never enabled")
            if status != "Enabled":
                row.problems.append(
                    f"bucket {bucket} keeps no versions ({status}). Fix: enable its versioning: they pin "
                    "what a load reads, and undo a deletion"
                )


class _Asking:
    """Requests of one client, for several threads."""

    def __init__(self, row: Row, client: S3Client) -> None:
        self._row, self._client = row, client

    def ask(self, action: str, resource: str) -> _Answer:
        """Raises Refused, Missing, Unreachable."""
        bucket, _, key = resource.partition("/")
        began = time.time()
        what = f"{action.removeprefix('s3:')} on {resource}"
        try:
            answer = self._requests(bucket, key)[action]()
        except ClientError as error:
            self._note_clock(error.response, began)
            return self._refusal(what, bucket, error)
        except BotoCoreError as error:
            raise not_asked(what, error) from error
        self._note_clock(answer, began)
        if action == PUT:
            self._row.remarks.append(
                f"the server ignores If-Match: {resource}, an object of one byte, was written"
            )
        if action == DELETE and answer.get("DeleteMarker"):
            self._row.remarks.append(f"the server ignores If-Match: {resource} has a delete marker now")
        return _Answer(True, answer)

    def _refusal(self, what: str, bucket: str, error: ClientError) -> _Answer:
        code = error_code(error)
        if code in _NO_RIGHT:
            return _Answer(False, None)
        if code in _NOTHING_THERE:
            return _Answer(True, {})
        if code in _UNKNOWN:
            return _Answer(None, None)
        if code == "NoSuchBucket":
            raise Missing(
                f"bucket {bucket} does not exist. Fix: make it, with versions, or correct [lake] or [source]",
                ErrorCode.OBJECT_NOT_FOUND,
            ) from error
        if code in DENIED:
            # The row says by how much a clock is off.
            raise denied(what, error) from error
        raise Unreachable(f"{what}: S3 answered {code}: {error}", ErrorCode.S3_UNREACHABLE) from error

    def _note_clock(self, answer: Any, began: float) -> None:
        at = http_date(answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date", ""))
        if at and self._row.clock is None:
            now = (began + time.time()) / 2
            self._row.clock = at.timestamp() - now

    def _requests(self, bucket: str, key: str) -> dict[str, Callable[[], Any]]:
        client: Any = self._client
        place = {"Bucket": bucket, "Key": key}
        return {
            LIST: lambda: client.list_objects_v2(Bucket=bucket, Prefix=NAME, MaxKeys=1),
            LOCATION: lambda: client.get_bucket_location(Bucket=bucket),
            LIST_VERSIONS: lambda: client.list_object_versions(Bucket=bucket, Prefix=NAME, MaxKeys=1),
            VERSIONING: lambda: client.get_bucket_versioning(Bucket=bucket),
            LIST_UPLOADS: lambda: client.list_multipart_uploads(Bucket=bucket, Prefix=NAME, MaxUploads=1),
            GET: lambda: client.get_object(**place),
            GET_VERSION: lambda: client.get_object(**place, VersionId="null"),
            PUT: lambda: client.put_object(**place, Body=b"-", IfMatch=_NO_ETAG),
            ABORT: lambda: client.abort_multipart_upload(**place, UploadId=NAME),
            PARTS: lambda: client.list_parts(**place, UploadId=NAME),
            # With an ETag it would take the right to read, too (AWS).
            DELETE: lambda: client.delete_object(**place, IfMatch="*"),
        }
