"""`sluice status`: ``observe`` asks the observer and Airflow, ``show`` prints. Services: ``stack/health``."""
