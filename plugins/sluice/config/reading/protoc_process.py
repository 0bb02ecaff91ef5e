"""The process that compiles: Google's protoc, in bounds of its own.

Run by its path, with Python's options ``-I -S``: it has no packages but the folder that it is told.
"""

from __future__ import annotations

import resource
import sys

# Bytes of memory, seconds of a processor, and bytes of a file: protoc needs a tenth of it for the largest
# schemas.
MAX_MEMORY = 1 << 30
MAX_SECONDS = 10
MAX_WRITTEN = 64 << 20
# The exit code for a text that is no schema; another one is of a process that failed.
REFUSED = 65


def main(packages: str, arguments: list[str]) -> int:
    """Compile as the arguments of protoc's command line say; ``packages``: where grpc_tools is."""
    for limit, most in (
        (resource.RLIMIT_AS, MAX_MEMORY),
        (resource.RLIMIT_CPU, MAX_SECONDS),
        (resource.RLIMIT_FSIZE, MAX_WRITTEN),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(limit)
        resource.setrlimit(limit, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    sys.path.insert(0, packages)
    from grpc_tools import _protoc_compiler

    return REFUSED if _protoc_compiler.run_main([one.encode() for one in ["protoc", *arguments]]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
