"""Reconciliation of a stream's systems: each disagreement is a named finding.

``positions`` compares the offsets of group, table and topic by the rules of ``core.findings``; ``contents``
verifies table and quarantine from the state of the last run that passed (``table_contents``,
``verified_table``, by the rules of ``incremental``; ``history``: what happened since); ``files`` checks the
stored data files. What is missing of a table or of the ledger is a finding as well (``report``). Start with
:mod:`sluice.core.findings`.
"""
