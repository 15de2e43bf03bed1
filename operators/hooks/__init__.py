"""Airflow connections, turned into what Dredge and its jobs understand."""
