"""Step mark_uncommitted: everything that branches have staged, read to the end."""
