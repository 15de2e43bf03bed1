"""Foresee: what other rules would free, and what a run will cost, before anything is changed."""

from dredge.gc.foresee.other_rules import Foreseen, Proposal, foresee

__all__ = ["Foreseen", "Proposal", "foresee"]
