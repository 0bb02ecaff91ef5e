"""The pure core: values, and functions of values. Knows neither Airflow nor Spark nor a network."""
