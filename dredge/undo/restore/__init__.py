"""Restore: bytes that a run deleted come back under the same key, and stay until an end that the user gives."""
