"""Expiration: take old snapshots out of history. Rules → plan (a value) → execution; it deletes no object."""
