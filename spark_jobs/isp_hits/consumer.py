"""The ISP stream's consumer: ``python spark_jobs/isp_hits/consumer.py``, run by the stream's runtime."""

from __future__ import annotations

import sys

from sluice.model import stream
from spark_jobs.common.stream import run
from spark_jobs.common.tables import declared
from spark_jobs.isp_hits.transforms import hits

NAME = "isp_hits"

if __name__ == "__main__":
    schema = declared(stream.load(NAME))
    sys.exit(run(NAME, record=lambda spark: schema, decode=lambda rows: hits(rows, schema)))
