"""What a stream leaves beside its table after 2,000 batches, against 200, with horizons of days.

    python -m bench.scale.history

The batch log is the writer's own, and maintenance removes its documents, once a day of 20 batches; the bucket
is in memory, and time passes at once. Prints one JSON document.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from tests.support.maintained import SHORT, MaintainedStream

FEW, MANY, A_DAY = 200, 2000, 20
# Figure -> the most that it may be.
GOALS = {"objects_left_ratio": 1.0}


def history(few: int = FEW, many: int = MANY) -> dict[str, Any]:
    """``few``, ``many``: batches, of whole days."""
    began = time.process_time()
    stream, left, removed = MaintainedStream(), dict[int, int](), 0
    for published in range(A_DAY, many + 1, A_DAY):
        removed += stream.day(A_DAY, in_documents=True)["removed"]
        if published in (few, many):
            left[published] = len(stream.objects())
    return {
        "history_days": SHORT.history_days,
        "batches": {str(count): found for count, found in left.items()},
        "documents_removed": removed,
        "objects_left_ratio": round(left[many] / left[few], 3),
        "cpu_seconds": round(time.process_time() - began, 2),
    }


STEPS = {"history": history}


def main() -> int:
    print(json.dumps(history()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
