"""What people said about a repository of lakeFS: the kinds of statements. `dredge.runs.consents` keeps them."""

from __future__ import annotations

from dredge.runs.consents import (
    PEOPLE,
    Consent,
    check_reason,
    login_name,
    read_consents,
    record_consent,
)

OWN, ALIAS, WITHOUT_ID, LIFT_BLOCK = "own", "alias", "without-id", "lift-block"
ACKNOWLEDGE = "acknowledge"

__all__ = [
    "ALIAS",
    "LIFT_BLOCK",
    "OWN",
    "PEOPLE",
    "WITHOUT_ID",
    "Consent",
    "check_reason",
    "login_name",
    "read_consents",
    "record_consent",
]
