"""Witnesses of the past: a mark must agree with what earlier runs saw in the namespace."""
