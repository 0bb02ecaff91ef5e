"""Data of the pages, cached for seconds: from the observer, Airflow's database, the ledger and the lake."""
