"""The taxi stream's consumer: ``python spark_jobs/nyc_taxi/consumer.py``, run by the stream's runtime."""

from __future__ import annotations

import sys

from sluice.model import stream
from spark_jobs.common.avro import Schemas, decoded
from spark_jobs.common.stream import run

NAME = "nyc_taxi"

if __name__ == "__main__":
    schemas = Schemas.load(stream.load(NAME).schema_file)
    sys.exit(
        run(
            NAME,
            record=schemas.current.struct,
            decode=lambda rows: decoded(rows, schemas),
        )
    )
