"""Repositories of known shapes, and what collecting them costs."""
