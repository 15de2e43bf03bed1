"""Step check_limits: may the candidates be deleted?"""

from dredge.icechunk.collection.check_limits import canaries
from dredge.icechunk.collection.check_limits.absent import PRESENT
from dredge.icechunk.collection.check_limits.output import CheckLimitsOutput

__all__ = ["PRESENT", "CheckLimitsOutput", "canaries"]
