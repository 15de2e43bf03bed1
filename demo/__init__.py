"""The demo lake, its sweep through Airflow, and the proof that nothing live was deleted."""
