"""Retention policies: what a user wants kept beyond lakeFS's own rules."""

from __future__ import annotations

from dredge.gc.retention.policy.model import Keep, PolicyRule, RetentionPolicy
from dredge.gc.retention.policy.reading import load_policy, read_policy

__all__ = ["Keep", "PolicyRule", "RetentionPolicy", "load_policy", "read_policy"]
