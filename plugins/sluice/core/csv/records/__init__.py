"""A file's bytes as records and cells: where they begin and end, and which are malformed.

``encodings`` makes UTF-8 of them, ``blocks`` takes them piece by piece, ``cut`` finds the records by
``quotes``, ``cells`` gives their texts, ``written`` how they stand in the file; ``skipped`` leaves lines in
front of the header out, ``line_ends`` finds another end of lines than the first.
"""
