"""A process without pandas, which Arrow would import."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from spark_jobs.common.spark.pandas import leave_out_pandas
{left_out}
import pyarrow
print(pyarrow.array([1, 2]).to_pylist(), "pandas" in sys.modules)
"""


def said(left_out: str) -> str:
    command = [sys.executable, "-c", SCRIPT.format(left_out=left_out)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_arrow_imports_pandas_unless_it_is_left_out() -> None:
    """If it does not any more, this module is of no use."""
    assert said("") == "[1, 2] True"
    assert said("leave_out_pandas()") == "[1, 2] False"
