"""The Wikipedia stream's queries: ``python spark_jobs/wiki_changes/queries.py``, run by the runtime."""

from __future__ import annotations

import sys

from spark_jobs.common.queries.run import main

if __name__ == "__main__":
    sys.exit(main("wiki_changes"))
