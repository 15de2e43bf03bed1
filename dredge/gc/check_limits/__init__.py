"""Step check_limits: every guard is asked, and what may go is told from what is held."""
