"""Approvals of collections of Icechunk repositories; see `dredge.approve.step`."""

from __future__ import annotations

from dredge.approve.step import Approvals
from dredge.icechunk.collection.approve.output import ApproveOutput

_APPROVALS = Approvals(ApproveOutput)
approve, answer, find_question = _APPROVALS.approve, _APPROVALS.answer, _APPROVALS.find_question
