"""Step bulk_delete: re-check, then delete the candidates and write the outcome of each."""
