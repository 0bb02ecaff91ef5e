"""Maintenance: every rewrite verified, files deleted late, positions and contents reconciled.

``verified_rewrites`` knows which rewrites of a table were verified by another process than made them: no file
is deleted before. ``reconciliation`` compares topic, table, quarantine and stored files, from what the run
before it verified, and names each finding. Start with ``reconciliation/table_contents``.
"""
