"""Step verify: what was deleted is gone, and what is live is there."""

from dredge.icechunk.collection.verify.output import VerifyOutput

__all__ = ["VerifyOutput"]
