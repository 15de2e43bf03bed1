"""Collection: delete the objects that no snapshot reaches. Mark → candidates → limits → sweep, each a step.

Only `sweeping` is handed a deleter. Everything else reads the repository, and writes into the run's folder.
"""
