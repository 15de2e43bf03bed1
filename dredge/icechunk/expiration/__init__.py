"""Expiration: take old snapshots out of history. Rules → plan (a value) → execution; no object is deleted."""
