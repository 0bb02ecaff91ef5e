"""Whole records of topics that others fill, into rows.

In: keys, values and headers of a piece, and what the stream declares of them (``[records]``). Out: columns of
the value, the key, the headers, and for each record that is not accepted the reason. It promises that a
declared part of a record is exactly what was sent, or the record is rejected; and that a record without a
value becomes what is declared: a row of nulls, no row with its offset in the account, or a rejected record.

Start with ``records``, which puts the parts together. ``plain`` are texts and bytes, ``json_texts`` JSON of
any form as its text, ``headers`` the column of headers. Pure.
"""
