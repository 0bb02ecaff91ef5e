"""The ISP stream's producer: ``spark-submit spark_jobs/isp_hits/producer.py --plan s3://…/plan.json``."""

from __future__ import annotations

import sys

from spark_jobs.common.producer import main
from spark_jobs.common.source_generated import generated_rows
from spark_jobs.isp_hits.generator import values

if __name__ == "__main__":
    sys.exit(main("isp_hits", generated_rows(values)))
