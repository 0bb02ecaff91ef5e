"""As :mod:`.daemon`, for a stream with a decoder: its workers run no code of the stream's own."""

from __future__ import annotations

from spark_jobs.common.consumer.direct.daemon import main
from spark_jobs.common.spark.pandas import leave_out_pandas

if __name__ == "__main__":
    leave_out_pandas()
    main()
