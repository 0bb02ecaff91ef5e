"""Asks one end each: what it answers goes into rows.

In comes a section of a platform file, and what its role needs; filled is the first of an end's rows. Nothing
of users is written: rights are asked by requests that name what does not exist, or whose condition fails.
Start with ``ends``, which names the ends of a platform file; ``tls`` shows a server's certificate.
"""
