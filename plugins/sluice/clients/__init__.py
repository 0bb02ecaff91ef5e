"""I/O without policy: Kafka, the bucket, the lake's tables, the ledger. Knows neither Airflow nor Spark."""
