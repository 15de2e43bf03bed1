"""Step verify: what was deleted is gone, and what lives is still there."""

from dredge.gc.verify.output import VerifyOutput

__all__ = ["VerifyOutput"]
