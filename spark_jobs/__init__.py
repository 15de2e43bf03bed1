"""The distributed steps: one program, `step.py`, whose table names the function of each."""
