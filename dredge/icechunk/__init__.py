"""Icechunk repositories: file formats, expiration, and collection of unreachable objects."""
