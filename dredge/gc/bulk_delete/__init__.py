"""Step bulk_delete: look again, then delete the candidates and write down what became of each."""
