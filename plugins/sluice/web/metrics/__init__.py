"""Metrics for Prometheus, each declared with name and meaning; the tables of docs are written from that.

``streams`` and ``queries`` declare those of this route; ``supervision/checks/check`` those of the process
that serves when each component was checked last. The form is ``core/exposition``.
"""
