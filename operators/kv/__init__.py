"""Operators of the trash cleaner for lakeFS's key-value store."""
