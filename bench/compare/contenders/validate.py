"""Task ``validate`` of a load outside Airflow.

``python -m bench.compare.contenders.validate <stream> <run id>``. Its last line is JSON: CPU seconds and
seconds of the step alone, without imports of Airflow.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from sluice.airflow.operators.load.validate import ValidateOperator


class Validate(ValidateOperator):
    def mark(self, key: str) -> None:
        """Nothing: there is no database of Airflow."""


def main() -> None:
    stream, run_id = sys.argv[1:]
    operator = Validate(task_id="validate", stream=stream)
    context: Any = {"run_id": run_id, "params": {"max_quarantined_percent": 0}}
    began, cpu = time.monotonic(), time.process_time()
    proof = operator.work(context)
    figures = {
        "cpu_seconds": round(time.process_time() - cpu, 3),
        "seconds": round(time.monotonic() - began, 3),
        "rows": proof["published"],
    }
    print("\n" + json.dumps(figures))


if __name__ == "__main__":
    main()
