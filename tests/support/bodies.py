"""Bodies of S3's answers."""

from __future__ import annotations

import io
from typing import Any


class Body(io.RawIOBase):
    """A response that gives at most ``size`` bytes at a time."""

    def __init__(self, data: bytes, size: int = 1000) -> None:
        self.rest, self.size = data, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self.rest[: min(self.size, len(buffer))]
        buffer[: len(part)], self.rest = part, self.rest[len(part) :]
        return len(part)
