"""Airflow plugin, by the entry point `airflow.plugins`."""
