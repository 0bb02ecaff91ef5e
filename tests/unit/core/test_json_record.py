"""Records through JSON, and who does not pay for it."""

from __future__ import annotations

import subprocess
import sys

NAMES = ("config.platform", "config.stream", "supervision.rules.sample", "core.processes.heartbeat")
MODULES = ", ".join(f"sluice.{name}" for name in NAMES)


def test_the_model_loads_without_pydantic() -> None:
    """Spark starts Python workers, and each one that reads S3 loads the model."""
    code = f"import sys, {MODULES}; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
