"""``[checkpoints]`` of a platform file: where Spark keeps them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from sluice.config.reading.toml import ConfigError

_ROOT = re.compile(r"/|s3a://[^/]")


@dataclass(frozen=True)
class Checkpoints:
    """A folder on a volume, or an ``s3a://`` address. Its loss costs no offsets: they are in the lake."""

    root: Annotated[
        str,
        "of consumer and queries; the same in all files: an absolute path on this machine, or "
        "`s3a://bucket/prefix` with the login of `[s3]`. Its loss costs no offsets: they are in the lake",
    ]

    @property
    def in_bucket(self) -> bool:
        return self.root.startswith("s3a://")


def check(checkpoints: Checkpoints, where: str) -> None:
    """Raises ConfigError naming ``where`` and the value."""
    root = checkpoints.root
    if not _ROOT.match(root):
        raise ConfigError(
            f"{where}: checkpoints root is {root!r}: Spark writes checkpoints to a folder or through s3a://. "
            "Fix: write an absolute path, or s3a://bucket/prefix"
        )
