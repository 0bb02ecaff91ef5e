"""The jobs that move records: one folder per stream, and common/."""

import os

# Here, because Spark's Python workers import a stream's functions by name, without its declaration.
__path__ += filter(None, os.environ.get("SLUICE_STREAMS", "").split(os.pathsep))
