"""Asks several things at once, none of which may hang the command that asks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from local.errors import Problem
from local.stack.health import UNREACHABLE_ERRORS
from sluice.model.spec.config import ConfigError


class Unseen(str):
    """In the place of an answer: why there is none."""


def ask_all(questions: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, Any]:
    """Name → the answer, or Unseen with the reason. Returns after `seconds` at the latest.

    A question that has no answer by then goes on in a daemon thread, which ends with the program.
    """
    answers: dict[str, Any] = {}
    threads: dict[str, threading.Thread] = {}

    def ask(name: str, question: Callable[[], Any]) -> None:
        try:
            answers[name] = question()
        except (*UNREACHABLE_ERRORS, Problem, ConfigError) as error:
            answers[name] = Unseen(" ".join(str(error).split())[:300] or type(error).__name__)
        except BaseException as error:
            answers[name] = Unseen(f"{type(error).__name__}: {error}")
            raise

    deadline = time.monotonic() + seconds
    for name, question in questions.items():
        threads[name] = threading.Thread(target=ask, args=(name, question), name=name, daemon=True)
        threads[name].start()
    for thread in threads.values():
        thread.join(max(0.0, deadline - time.monotonic()))
    return {name: answers.get(name, Unseen(f"no answer within {seconds:.0f} s")) for name in questions}
