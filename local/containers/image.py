"""`python -m local.containers image`: what the image of jobs has beside the code."""

from __future__ import annotations

from pathlib import Path

import yaml

from local.containers import layout
from local.containers.layout import script
from local.runtime.home import write_files
from local.runtime.supervisord import Program
from local.services import streams
from local.setup.bootstrap import java_home
from sluice.clients.kubernetes.identities import HOME
from sluice.clients.kubernetes.pods import TEMPLATES, executor_template


def write() -> int:
    """Write Spark's configuration, the templates of executors, and the entry point, which needs no secret."""
    stack = layout.context({}, frozenset(), "", java_home())
    # A job's command follows; `env` becomes it.
    job = Program("job", ["env"], stack.job_environment(), priority=0, directory=stack.home.root)
    entry = Path(HOME, "start", "job")
    templates = {
        Path(TEMPLATES, f"executor-{role}.yaml"): yaml.safe_dump(executor_template(role))
        for role in layout.JOBS
    }
    write_files({**streams.files(stack), **templates, entry: script(job)})
    entry.chmod(0o700)
    return 0
