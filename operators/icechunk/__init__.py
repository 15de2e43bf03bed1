"""Operators of Icechunk expiration and collection."""
