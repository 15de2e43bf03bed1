"""The end of a run: the state for the next run, own files, figures about the repository, and the report."""
