"""Verify a load from table, quarantine and sources alone, and write its proof. Start with ``verify``.

``checks`` compares, ``proof`` is the form of the result, ``verify`` writes it. Who reads a proof later: the
load's audit and asset event (``loads/written/audit``, ``loads/announce``), the comparison of sinks, the
pages (``web/documents``), reconciliation.
"""
