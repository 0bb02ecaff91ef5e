"""What all sinks of a query have in common: who may write, which batch is there, and how one fails.

A sink belongs to one query of one stream. A batch's number is the query's, kept over restarts and take-overs;
an owner's token is higher than any before it. Which sink guarantees what, its own docstring says.
"""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame


class Unwritten(RuntimeError):
    """A sink did not take a batch; it holds none of it, or the same batch can be written again.

    The first line names the sink, the reason and the mend.
    """


class Sink(Protocol):
    """One place to which a query's results go. Not for several threads at once."""

    name: str

    def enter(self, token: int) -> int | None:
        """Become the writer with this token: no lower one writes from here on, as far as the sink can fence.

        Returns the last batch of which the sink holds anything, whoever wrote it (None: it holds nothing).
        Of a sink that cannot take a batch as a whole it may be a part: the same rows under the same number
        complete it. Entering twice is the same as once. Raises fence.Superseded where a higher token is
        there.
        """

    def write(self, batch: int, rows: DataFrame) -> bool:
        """Write a batch: the columns of ``Query.keys`` and the measures. The caller keeps ``rows``
        (``persist``): they may be computed more than once.

        Returns False, having changed nothing, where the whole batch is there already. Raises fence.Superseded
        where a later owner has entered.
        """

    def close(self) -> None:
        """Let go of what is open. It can be called more than once, and at any time."""
