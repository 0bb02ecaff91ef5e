"""Measurements of Sluice on this machine, beside other ways where another way exists. No tests.

`make bench` (``python -m bench.compare``) runs workloads on a stack of its own that it removes, and writes
build/bench.json and build/bench.svg. A workload (``workloads.py``) is a function that lets contenders run in
turns; ``report`` of ``figures.py`` makes medians of their turns and ratios of runs in turn. The other ways
are contenders (``contenders/``: ``plain.py``, ``connect.py``), and so is Sluice itself in another state:
with ten batches behind it (``growth.py``), with supervision paused (``supervision.py``).

``meter.py`` is the one way to count: CPU seconds and memory of process trees, S3 calls by MinIO's own
counters. CPU seconds and calls repeat on a busy machine, seconds do not. A run fails if a contender does not
end with exactly the rows that were sent. Start reading in ``workloads.py``; the figures are explained in
docs/performance.md. ``python -m bench.compare.sizing`` measures nothing: it computes sizes from a rate.
"""
