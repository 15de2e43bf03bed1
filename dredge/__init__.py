"""Dredge reclaims storage from versioned data lakes and never deletes a live object."""
