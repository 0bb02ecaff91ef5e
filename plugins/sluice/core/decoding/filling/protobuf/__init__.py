"""Further fields of messages, as values of the columns that the table has by now.

Start with ``filler``. ``texts`` reads a value of a field back from its text, ``merging`` merges it into what
its column has, and ``numbers`` reads fields of which only the number and the bytes are known. Pure.
"""
