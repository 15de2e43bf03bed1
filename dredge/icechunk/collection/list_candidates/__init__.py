"""Step list_candidates: what the store holds, nothing live names, and is older than the cutoff."""
