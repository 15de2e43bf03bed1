"""Why an object is there, or is not: everything that keeps it, or the run that deleted it. Only reads."""

from dredge.gc.explain.answer import Answer
from dredge.gc.explain.why import why

__all__ = ["Answer", "why"]
