"""Step list_candidates: what the store holds, nothing live names, and is older than the cutoff."""

from dredge.icechunk.collection.list_candidates.output import ListCandidatesOutput
from dredge.icechunk.collection.list_candidates.overwritten import needed_copies

__all__ = ["ListCandidatesOutput", "needed_copies"]
