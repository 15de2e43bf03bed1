"""The part of Dredge that knows Airflow and Spark, under one name that collides with nobody's.

In a checkout its packages are links to the folders beside this one: `operators`, `dags`, `plugins`, `spark_jobs`. In a
wheel they are here (docs/decisions/packaging.md). Code imports them by this name only: the same file loaded under two
names would be two modules.
"""
