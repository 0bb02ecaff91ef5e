"""What S3 answers to a GET of an object, as boto3 gives it."""

from __future__ import annotations

import hashlib
import io
from typing import Any


def object_answer(data: bytes, asked_range: str = "") -> dict[str, Any]:
    """All of it, or the part that a Range asks for (``bytes=0-9``, ``bytes=5-``, ``bytes=-3``)."""
    etag = {"ETag": f'"{hashlib.sha256(data).hexdigest()[:32]}"'}
    if not asked_range:
        whole = {"Body": io.BytesIO(data), "ContentLength": len(data), **etag}
        return {**whole, "ResponseMetadata": {"HTTPStatusCode": 200}}
    first, _, last = asked_range.removeprefix("bytes=").partition("-")
    begin = int(first) if first else max(len(data) - int(last), 0)
    end = min(int(last), len(data) - 1) if first and last else len(data) - 1
    part = data[begin : end + 1]
    return {
        "Body": io.BytesIO(part),
        "ContentLength": len(part),
        "ContentRange": f"bytes {begin}-{end}/{len(data)}",
        "ResponseMetadata": {"HTTPStatusCode": 206},
        **etag,
    }
