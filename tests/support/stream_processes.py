"""Processes of a stream over single services, as the stack runs them: producers, and a consumer meanwhile."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from local.services import streams as stream_programs
from local.stack.stack import wait_until
from sluice.clients.kafka.consumers import topic_offsets
from sluice.clients.lake.catalog import Lake
from sluice.config.folders import VARIABLE
from sluice.config.stream import ENTRY_POINT, StreamSpec
from sluice.core.processes.exits import STOPPED
from tests.support.services import Services

# What is there is published within them, the start of Spark included.
SECONDS = 120


def send(services: Services, spec: StreamSpec, plan: str, folders: str) -> str:
    """Send a plan of a load, ``s3://…/plan.json``; the log. ``folders``: of streams."""
    submit = str(Path(services.stack.context.python).parent / "spark-submit")
    done = subprocess.run(
        [submit, str(ENTRY_POINT), "producer", spec.name, "--plan", plan],
        env=_environment(services, folders),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


@contextmanager
def consuming(services: Services, spec: StreamSpec, folders: str, log: Path) -> Iterator[None]:
    """Run the stream's consumer; on entry and before it is asked to stop, all that is on the topic is
    published."""
    arguments = spec.component("consumer").arguments
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(services.stack.context.python), *arguments],
            env=_environment(services, folders),
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for_all(services, spec, process, log)
        yield
        wait_for_all(services, spec, process, log)
        process.terminate()
        assert process.wait(60) == STOPPED, log.read_text()[-3000:]
    finally:
        process.kill()
        process.wait()


def wait_for_all(services: Services, spec: StreamSpec, process: subprocess.Popen[bytes], log: Path) -> None:
    platform = services.stack.platform("reader")
    with closing(Lake.open(platform)) as lake:

        def published() -> bool:
            assert process.poll() is None, log.read_text()[-3000:]
            found = topic_offsets(platform.kafka, spec.topic.name)
            position = lake.position(spec.table)
            ends = position.ends if position is not None else {}
            return all(ends.get(partition, begin) >= end for partition, (begin, end) in found.items())

        wait_until(f"the records of {spec.topic.name}", published, SECONDS, 0.5)


def _environment(services: Services, folders: str) -> Mapping[str, str]:
    context = services.stack.context
    stream_programs.prepare(context)
    return context.job_environment() | {VARIABLE: folders}
