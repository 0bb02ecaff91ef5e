"""The wiki stream's consumer: ``python spark_jobs/wiki_changes/consumer.py``, run by the stream's runtime."""

from __future__ import annotations

import sys

from sluice.model import stream
from spark_jobs.common.stream import run
from spark_jobs.common.tables import declared
from spark_jobs.wiki_changes.transforms import changes

NAME = "wiki_changes"

if __name__ == "__main__":
    schema = declared(stream.load(NAME))
    sys.exit(run(NAME, record=lambda spark: schema, decode=lambda rows: changes(rows, schema)))
