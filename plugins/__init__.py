"""What hangs Dredge into Airflow's UI, by the entry point `airflow.plugins`."""
