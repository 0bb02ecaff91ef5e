"""What moves records, by duty: rooms import downwards.

``producer`` sends rows of objects and generated rows to a topic, ``feed`` events of a feed; ``consumer``
writes the topic into the table; ``queries`` read the table and write to ``sinks``; ``maintenance`` rewrites
and changes tables. They stand on ``lake`` (tables, the writer lease), ``kafka`` (records, offsets) and
``spark`` (session, checkpoints, how a process starts and ends).
"""
