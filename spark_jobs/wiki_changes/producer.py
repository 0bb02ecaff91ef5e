"""The Wikipedia stream's producer: ``python spark_jobs/wiki_changes/producer.py``, run by its runtime."""

from __future__ import annotations

import sys

from spark_jobs.common.feed.event import Source
from spark_jobs.common.feed.run import run
from spark_jobs.wiki_changes.events import read, rewind

if __name__ == "__main__":
    sys.exit(run("wiki_changes", Source(read, rewind)))
