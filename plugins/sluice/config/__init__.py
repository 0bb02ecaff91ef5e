"""What people declare: stream.toml, schemas, platform files, notifications.toml.

In: TOML and Avro files. Out: frozen values, complete and checked, or a ConfigError that names the file, the
key, the value found and the fix; nothing is connected. An unknown key is an error.
:mod:`~sluice.config.stream` is a stream, which :mod:`~sluice.config.streams` finds and reads;
:mod:`~sluice.config.platform` one role's systems, :mod:`~sluice.config.schema` how columns are written.
``sections`` has those of a stream, ``platform_sections`` those of a platform file, ``reading`` what all of
them are read with; imports go downwards: streams, a stream, sections, reading. Start with ``streams``, which
opens the files, then ``stream``.
"""
