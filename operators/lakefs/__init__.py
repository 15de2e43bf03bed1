"""Operators of a lakeFS collection, a module a task."""
