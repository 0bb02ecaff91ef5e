"""What people declare: stream.toml, schemas, platform files, names in the ledger."""
