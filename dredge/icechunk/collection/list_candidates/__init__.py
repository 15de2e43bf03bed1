"""Step list_candidates: find garbage older than the cutoff; garbage that has waited is a candidate."""
