"""Run state: what a run leaves for the next one, so that the next one need not read everything again."""
