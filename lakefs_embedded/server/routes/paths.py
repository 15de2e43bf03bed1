"""Shared path templates of the route table, below the base path."""

from __future__ import annotations

REPOSITORY = "/repositories/{repository}"
BRANCH = REPOSITORY + "/branches/{branch}"
REF = REPOSITORY + "/refs/{ref}"
USER = "/auth/users/{user}"
GROUP = "/auth/groups/{group}"
POLICY = "/auth/policies/{policy}"
