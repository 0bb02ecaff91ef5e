"""Stacks of tests: started, ended without a process left, also where the test process itself was ended."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from local.runtime import processes

if TYPE_CHECKING:
    # Not at run time: its imports take seconds, and each process of a test run needs what is below.
    from local.stack.stack import Stack

# A folder with a file per stack, named by its id: shared by the processes of one test run.
VARIABLE = "SLUICE_TEST_STACKS"


@contextmanager
def running(stack: Stack) -> Iterator[Stack]:
    """The stack, up; at the end down, which must leave no process, and its data removed."""
    if VARIABLE in os.environ:
        (Path(os.environ[VARIABLE]) / stack.home.id).touch()
    try:
        stack.up()
        yield stack
        stack.down()
        assert processes.stack_processes(stack.home.id) == [], "make down has left processes"
    finally:
        stack.destroy()


def begin_run() -> None:
    """Before the processes of a test run start."""
    os.environ[VARIABLE] = tempfile.mkdtemp(prefix="sluice-test-stacks-")


def end_run() -> None:
    """Ends the stacks of interrupted processes: supervisord is no child that would end with them."""
    stacks = Path(os.environ.pop(VARIABLE))
    for stack in stacks.iterdir():
        processes.end_all(stack.name)
    shutil.rmtree(stacks)
