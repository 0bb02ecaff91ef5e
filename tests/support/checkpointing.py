"""A program that sends in transactions as Flink's sink does: one for each checkpoint, whose records are
flushed when it is made, and which is committed when it is complete; meanwhile the next one is open.

`python -m tests.support.checkpointing`: reads a line of JSON, `{"kafka": …, "topic": …, "attempt": …,
"timeout_ms": …}`, sends, prints a line, and waits; the third transaction is open then.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer

from local.base import REPO

# In each partition, by each transaction.
RECORDS = 20
PARTITIONS = 2
SECONDS = 30.0


class Checkpoint:
    """One transaction. ``number``: from 1."""

    def __init__(self, settings: Mapping[str, Any], number: int) -> None:
        self._topic, self._name = settings["topic"], f"{settings['attempt']}-{number}"
        self._producer = Producer(
            {
                **settings["kafka"],
                "transactional.id": f"{self._topic}-{self._name}",
                "transaction.timeout.ms": settings["timeout_ms"],
                "log_level": 0,
            }
        )
        self._producer.init_transactions(SECONDS)
        self._producer.begin_transaction()

    def send(self, records: int) -> None:
        for number in range(records):
            for partition in range(PARTITIONS):
                self._producer.produce(self._topic, f"{self._name}-{number}", self._name, partition=partition)
        self._producer.flush(SECONDS)

    def commit(self) -> None:
        self._producer.commit_transaction(SECONDS)


def send(settings: Mapping[str, Any]) -> list[Checkpoint]:
    """Two are committed, each after records of the next one; the third is open."""
    first = Checkpoint(settings, 1)
    first.send(RECORDS)
    second = Checkpoint(settings, 2)
    second.send(RECORDS // 2)
    first.commit()
    second.send(RECORDS // 2)
    third = Checkpoint(settings, 3)
    third.send(RECORDS)
    second.commit()
    return [third]


@contextmanager
def sending(kafka: Mapping[str, Any], topic: str, attempt: str, timeout_ms: int) -> Iterator[None]:
    """The program, when it has sent; it is killed at the end."""
    login = {name: value for name, value in kafka.items() if isinstance(value, str)}
    settings = {"kafka": login, "topic": topic, "attempt": attempt, "timeout_ms": timeout_ms}
    command = [sys.executable, "-m", "tests.support.checkpointing"]
    with subprocess.Popen(
        command, cwd=REPO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin
        assert program.stdout
        try:
            # Its password is in no argument.
            program.stdin.write(f"{json.dumps(settings)}\n")
            program.stdin.flush()
            assert program.stdout.readline() == "sent\n"
            yield
        finally:
            program.kill()


if __name__ == "__main__":
    opened = send(json.loads(sys.stdin.readline()))
    sys.stdout.write("sent\n")
    sys.stdout.flush()
    # Until it is killed.
    sys.stdin.read()
