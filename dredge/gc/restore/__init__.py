"""Restore: what a run deleted comes back."""
