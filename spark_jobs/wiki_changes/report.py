"""Who edits most, window by window."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.common.report_counts import COORDINATES
from spark_jobs.common.report_owner import Counting

# Of the types of a change; the others are a page's category, an entry of a log, and what came from elsewhere.
EDITS = ("edit", "new")


def edits(changes: DataFrame) -> DataFrame:
    """``changes`` (rows of the table) with who did it, whether a bot, ``at`` which moment, and whether it
    ``counts``: an edit of a page, or a new page.

    A user whom the wiki hides is the empty text, and who is not said to be a bot is none.
    """
    return changes.select(
        *COORDINATES,
        F.col("change_timestamp").alias("at"),
        F.coalesce("user", F.lit("")).alias("user"),
        F.coalesce("bot", F.lit(False)).alias("bot"),
        F.coalesce(F.col("type").isin(*EDITS), F.lit(False)).alias("counts"),
    )


def counting() -> Counting:
    return Counting({"user": "STRING", "bot": "BOOLEAN"}, edits)
