"""Airflow operators and hooks."""
