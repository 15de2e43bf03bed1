"""Step approve: a person says whether the candidates may be deleted, where the run has to ask."""

from dredge.gc.approve.needed import approval_inputs, why_asked
from dredge.gc.approve.output import ApproveOutput
from dredge.gc.approve.proof import approval_of

__all__ = ["ApproveOutput", "approval_inputs", "approval_of", "why_asked"]
