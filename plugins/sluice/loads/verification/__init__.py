"""Verify a load from table, quarantine and sources alone, and write its proof. Start with ``verify``.

``checks`` reads what a load has and compares it by the rules of ``core.offsets.verify``; ``proof`` is the
form of the result, ``verify`` writes it. Later it is read by the load's audit (``loads/written/audit``),
its asset event (``loads/announce``) and the pages (``web/documents``); its short record ``history/proof``
by reconciliation, the observer (``supervision/observer/loads``) and ``ledger/known_tables``.
"""
