"""Exit codes by which a component says why it ended. No imports: the parent process reads them too."""

# Another writer has the lease, or another producer the transactional id. EX_PROTOCOL of sysexits.h.
FENCED = 76
# A system refuses its login. EX_NOPERM of sysexits.h. Not final: its runtime starts it again, ever more
# slowly, so that it goes on by itself once the login is corrected.
LOGIN_REFUSED = 77
# It cannot work with its configuration. EX_CONFIG of sysexits.h.
CONFIGURATION = 78
# It ended as SIGTERM asked it to; as a shell says of such an end. Not 0: Kubernetes takes that for the end of
# all work, and replaces no pod whose process ended with it, though only the pod was deleted.
STOPPED = 143
# A restart brings the same end again.
FINAL = frozenset({FENCED, CONFIGURATION})
# What a process writes to a file if its runtime knows no exit codes, and ends with 0. That runtime starts it
# no more: after a refused login supervision does.
BY_MESSAGE = FINAL | {LOGIN_REFUSED}
# Path of that file.
TERMINATION_LOG = "SLUICE_TERMINATION_LOG"
# Kubernetes keeps the last 4096 bytes of such a file, in UTF-8.
MAX_REASON = 1000


def termination_message(code: int, reason: str) -> str:
    return f"{code} {reason[:MAX_REASON]}"


def final_end(message: str) -> tuple[int, str] | None:
    """Code and reason of a :func:`termination_message`; None for another text."""
    code, _, reason = message.partition(" ")
    return (int(code), reason) if code in {str(end) for end in BY_MESSAGE} else None
