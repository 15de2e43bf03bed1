"""Airflow connections for Dredge and its jobs."""
