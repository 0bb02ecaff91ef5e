"""New York yellow-taxi trips, as Avro."""
