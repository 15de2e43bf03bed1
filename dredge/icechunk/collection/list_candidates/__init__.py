"""Step list_candidates: find garbage older than the cutoff; garbage found long enough ago becomes a candidate."""
