"""Step verify: what was deleted is gone, and what lives is still there."""
