"""The taxi stream's producer: ``spark-submit spark_jobs/nyc_taxi/producer.py --plan s3://…/plan.json``."""

from __future__ import annotations

import sys

from spark_jobs.common.producer import main
from spark_jobs.common.source_objects import object_rows
from spark_jobs.nyc_taxi.transforms import trips

if __name__ == "__main__":
    sys.exit(main("nyc_taxi", object_rows(trips)))
