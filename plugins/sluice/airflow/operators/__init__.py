"""Operators: a class per task, in a folder per kind of DAG. Each is idempotent and can be cleared alone.

An operator reads its params, calls its capability, and fails with one line; ``base`` has what all share
(start there).
"""
