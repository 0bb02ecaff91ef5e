"""A file's bytes as records and cells: where they begin and end, and which are malformed.

``encodings`` makes UTF-8 of them, ``blocks`` takes them piece by piece, ``cut`` finds the records by
``quotes``, ``cells`` gives their texts, ``written`` how they stand in the file. ``ranges`` is for a file that
several read, each a part.
"""
