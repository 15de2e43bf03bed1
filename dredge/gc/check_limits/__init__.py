"""Step check_limits: guards, holds and limits."""
