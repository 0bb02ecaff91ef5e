"""The last check of each component, for an alarm that needs neither Airflow nor its database."""
