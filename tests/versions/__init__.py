"""The package with other versions of Airflow, Spark and Python: `./run test versions`."""
