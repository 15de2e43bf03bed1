"""Parallel calls of properties are made in order."""

from tests.support.in_order import in_order  # noqa: F401 (a fixture for every module)
