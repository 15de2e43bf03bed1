"""Step approve: a person says whether the candidates may be deleted, where the run has to ask (`dredge.approve`)."""
