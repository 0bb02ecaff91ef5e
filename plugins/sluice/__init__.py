"""Sluice: records from Kafka to the lake, each load verified.

Read it from the ground up: :mod:`~sluice.core` (values and rules, pure), :mod:`~sluice.config` (what people
declare), :mod:`~sluice.clients` (I/O without policy), :mod:`~sluice.ledger` (what is kept, and how it is
named), :mod:`~sluice.systems` (one role's clients). On these stand the capabilities, a room each:
:mod:`~sluice.loads`, :mod:`~sluice.changes`, :mod:`~sluice.supervision`, :mod:`~sluice.maintenance`,
:mod:`~sluice.queries`, :mod:`~sluice.trace`, :mod:`~sluice.notify`. They know no Airflow: its classes in
:mod:`~sluice.airflow` call them. Pages and metrics are in :mod:`~sluice.web`. Each package's docstring tells
what comes in, what goes out, what it promises, and where to start reading.
"""
