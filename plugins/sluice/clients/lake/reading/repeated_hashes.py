"""Which of many 64-bit hashes come more than once, in constant memory: the hashes are on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Hashes with the same upper bits are in one file, of which one at a time is in memory: of 100 million hashes
# 800,000, or 6 MB.
PARTS_BITS = 7
_BUFFER = 1 << 15
# Hashes that are read at once.
_CHUNK = 1 << 20
_HASH_BITS = 64


class RepeatedHashes:
    """Hashes that come batch by batch; in its context. Takes eight bytes of disk for each."""

    def __enter__(self) -> Self:
        self._folder = TemporaryDirectory(prefix="sluice-hashes-")
        paths = (Path(self._folder.name) / str(number) for number in range(1 << PARTS_BITS))
        self._files = [path.open("w+b", buffering=_BUFFER) for path in paths]
        return self

    def __exit__(self, *error: Any) -> None:
        for file in self._files:
            file.close()
        self._folder.cleanup()

    def add(self, hashes: NDArray[np.uint64]) -> None:
        """Raises OSError if the disk is full."""
        parts = (hashes >> np.uint64(_HASH_BITS - PARTS_BITS)).astype(np.int16)
        order = np.argsort(parts, kind="stable")
        begins = np.searchsorted(parts[order], np.arange(1, 1 << PARTS_BITS))
        for file, part in zip(self._files, np.split(hashes[order], begins), strict=True):
            if len(part):
                file.write(part.tobytes())

    def repeated(self) -> Iterator[NDArray[np.uint64]]:
        """Those that came more than once, part by part: in memory are a part's different ones, so that one
        which came a hundred million times takes no more than one that came twice."""
        for file in self._files:
            file.flush()
            file.seek(0)
            known = found = np.empty(0, np.uint64)
            while chunk := file.read(_CHUNK * np.uint64().nbytes):
                come, times = np.unique(np.frombuffer(chunk, np.uint64), return_counts=True)
                again = (times > 1) | np.isin(come, known, assume_unique=True)
                found, known = np.union1d(found, come[again]), np.union1d(known, come)
            if len(found):
                yield found
