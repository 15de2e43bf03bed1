"""Purge: what could be brought back goes for good, once it is old enough."""
