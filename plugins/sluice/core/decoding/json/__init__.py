"""Records that are one JSON object each (RFC 8259, UTF-8), into the columns of a flat schema.

In: the values of a piece, and ``column -> Spark type`` as ``config.schema.parse_ddl`` gives it. A value is
exactly what was sent, or its record is rejected with a reason that names the field, what was found and what
is expected:

- Keys are matched exactly, after their escapes; unknown ones are ignored, and may be there twice. A declared
  one that is there twice is an error. A missing field and ``null`` are null.
- A whole number is written without point and exponent: ``1.0`` and ``1e3`` are numbers of another type. A
  float is the number of its type nearest to the literal, which is not beyond the type's range. A decimal is a
  number, or a text that is one, whose value the type has exactly.
- A text is a text, never a number's; binary is base64 in its canonical form. Dates and times are ISO 8601,
  a timestamp with its offset from UTC, in years 1 to 9999, to microseconds: further digits are zeros.
- Half of a surrogate pair is an error in a declared field, and harmless elsewhere.

Start with ``decoder``. ``document`` and ``values`` are the reference: the standard library's parser, and what
a JSON value is as a column's. ``rows`` has Arrow's parser read all records at once and finds those that it
reads differently, ``conversions`` makes columns of what it read; ``parts`` finds the rows that Arrow refuses.
``columns`` are the types. Pure.
"""
