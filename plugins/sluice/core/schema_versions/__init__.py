"""Versions of a registry's schema in a table: at which offsets each has records, when its columns came, and
what of it the table lacks.

In: what batches found, Iceberg's fields, a registered schema. Out: the texts of table properties, and what a
page and ``sluice trace`` say of them. Start with ``offsets``. Pure.
"""
