"""Fields of a writer's schema that the table's schema does not have, as the text of a JSON object.

In: records of the writer's schema, all at once or one by one. Out: a text for each of them, null without
such a field. Values are written as the format ``json`` reads them: whole numbers and floats as numbers,
decimals as texts of all their digits, bytes in base64, dates and times in ISO 8601 (a time that is beyond the
years 1 to 9999 as its number of microseconds, a date as that of days since 1970), NaN and infinite numbers as
texts. A record is an object, a map one too, an array an array, and a union what it has. Of a field that both
schemas have, the object has only what the table's lacks of it, at the place where it was.

Start with ``fields``, which finds them; ``json_values`` writes values, ``columns`` many at once. Pure.
"""
