"""Step check_limits: may the candidates be deleted?"""

from dredge.icechunk.collection.check_limits import canaries
from dredge.icechunk.collection.check_limits.output import CheckLimitsOutput

__all__ = ["CheckLimitsOutput", "canaries"]
