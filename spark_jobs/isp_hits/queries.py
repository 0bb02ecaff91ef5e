"""The ISP stream's queries: ``python spark_jobs/isp_hits/queries.py``, run by the stream's runtime."""

from __future__ import annotations

import sys

from spark_jobs.common.queries.run import main

if __name__ == "__main__":
    sys.exit(main("isp_hits"))
