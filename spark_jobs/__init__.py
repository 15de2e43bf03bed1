"""Steps on Spark. `step.py` is the program; its table names the function of each step."""
