"""Texts of a column as values of its type, and values as Avro.

``kinds`` are the types, ``values`` converts by ``numbers`` and ``times`` (of ``patterns``), ``bodies``
encodes.
"""
