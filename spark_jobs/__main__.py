"""Run one job of a stream: ``python -m spark_jobs <job> <stream> [options]``, a job of ``JOBS``.

spark-submit runs this file with the same arguments. Each job imports only its modules: a feed's producer
starts no JVM.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

from sluice.config import streams
from sluice.config.reading.toml import ConfigError
from sluice.config.stream import SourceType
from spark_jobs.common.spark.failures import failure_line, needs_traceback
from spark_jobs.common.spark.process import code_for, exit_code

Job = Callable[[str, Sequence[str]], int]


def consumer(name: str, options: Sequence[str]) -> int:
    from spark_jobs.common.consumer.run import run

    _parse_no(options)
    return run(name)


def producer(name: str, options: Sequence[str]) -> int:
    match streams.load(name).source:
        case SourceType.FEED:
            from spark_jobs.common.feed.run import run

            _parse_no(options)
            return run(name)
        case SourceType.GENERATOR:
            from spark_jobs.common.producer.generated import send_generated
            from spark_jobs.common.producer.run import main

            return main(name, send_generated, options)
        case SourceType.CSV:
            from spark_jobs.common.producer.objects import send_objects
            from spark_jobs.common.producer.run import main

            return main(name, send_objects, options)
        case SourceType.TOPIC:
            raise ConfigError(
                f"stream {name!r} has no producer: others fill its topic. Fix: run its consumer, and "
                f"{name}_load"
            )
        case other:
            assert_never(other)


def queries(name: str, options: Sequence[str]) -> int:
    from spark_jobs.common.queries.run import main

    return main(name, options)


def compact(name: str, options: Sequence[str]) -> int:
    from spark_jobs.common.maintenance.compact import main

    return main(name, options)


def change(name: str, options: Sequence[str]) -> int:
    from spark_jobs.common.maintenance.change import main

    return main(name, options)


def _parse_no(options: Sequence[str]) -> None:
    argparse.ArgumentParser(usage="this job has no options").parse_args(options)


JOBS: Mapping[str, Job] = {job.__name__: job for job in (consumer, producer, queries, compact, change)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a job; return its exit code, with a :func:`failure_line` on stderr for another than 0
    (``process.code_for``)."""
    parser = argparse.ArgumentParser(prog="python -m spark_jobs", description="Run one job of a stream.")
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("stream")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="the job's own")
    args = parser.parse_args(arguments)
    try:
        return JOBS[args.job](args.stream, args.options)
    except Exception as error:
        line = failure_line(error)
        if needs_traceback(line):
            traceback.print_exc()
        print(line, file=sys.stderr)  # noqa: T201
        return exit_code(code_for(error, line), line)


if __name__ == "__main__":
    sys.exit(main())
