"""The pages inside Airflow: a FastAPI app behind Airflow's login, and its static files."""
