"""Airflow operators, one module a step: arguments, life-cycle, links. What a step does is in `dredge`."""
