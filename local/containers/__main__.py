"""`python -m local.containers configure|provision`: the one-shot services of docker-compose.yaml."""

from __future__ import annotations

import sys

from local.base import UsageError, exit_code
from local.containers import provision
from local.containers.stack import ContainerStack

COMMANDS = {"configure": provision.configure, "provision": provision.provision}


def main(arguments: list[str]) -> int:
    if arguments not in ([name] for name in COMMANDS):
        raise UsageError(f"unknown arguments {arguments}. Fix: give {' or '.join(COMMANDS)}")
    return COMMANDS[arguments[0]](ContainerStack())


if __name__ == "__main__":
    sys.exit(exit_code(main))
