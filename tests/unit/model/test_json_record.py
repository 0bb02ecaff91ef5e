"""Records through JSON, and what does not pay for it."""

from __future__ import annotations

import subprocess
import sys


def test_the_model_loads_without_pydantic() -> None:
    """Spark starts a Python worker per task slot, and each one that reads S3 loads the model."""
    code = (
        "import sys, sluice.model.platform, sluice.model.stream, sluice.model.tending, sluice.model.samples"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, {modules}; print('pydantic' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"
