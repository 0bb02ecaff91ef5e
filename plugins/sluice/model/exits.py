"""Exit codes by which a component says why it ended. No imports: the parent process reads them too."""

# Another writer has the lease, or another producer the lock. EX_PROTOCOL of sysexits.h.
FENCED = 76
# It cannot work with its configuration. EX_CONFIG of sysexits.h.
CONFIGURATION = 78
# It ended as SIGTERM asked it to; as a shell says of such an end. Not 0: Kubernetes takes that for the end of
# all work, and replaces no pod whose process ended with it, though only the pod was deleted.
STOPPED = 143
# A restart brings the same end again.
FINAL = frozenset({FENCED, CONFIGURATION})
