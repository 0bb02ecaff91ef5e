"""What is known of a table and its files.

``summary`` names the properties of a snapshot's summary; ``known_tables`` says whether a table is the one
that it was, ``file_removal`` what may be deleted, ``rewrites`` and ``storage`` what a rewrite may do. Start
with ``summary``.
"""
