"""Cause and fix of each error code, for alerts and docs/errors.md; ``guide`` has their form.

By the code's hundreds: 1xx, 2xx and 8xx (configuration, systems, the embedded stack) in ``systems``; 3xx
and 4xx (sources, loads, changes, reconciliation) in ``loads``; 5xx and 7xx (components, queries, sinks) in
``components``.
"""
