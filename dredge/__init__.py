"""Dredge reclaims storage from versioned data lakes and never deletes a live object."""

__version__ = "0.1.0"
