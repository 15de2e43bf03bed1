"""Airflow operators, one module per task: arguments, life-cycle, links. What a step does is in `dredge`."""
