"""Which variables hooks may use, and that nobody sees their values."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

import pytest

from dredge.graveler.actions.errors import HookError
from dredge.graveler.actions.variables import HIDDEN, Redaction, Variables

ENVIRON = {"LAKEFSACTION_A": "s3cr/et +ü", "LAKEFSACTION_EMPTY": "", "AWS_SECRET_ACCESS_KEY": "never"}


def test_variables_are_filled_in_and_hidden() -> None:
    filled = Variables(ENVIRON).fill("Bearer {{ ENV.LAKEFSACTION_A }}/{{ENV.LAKEFSACTION_EMPTY}}")
    assert filled.value == "Bearer s3cr/et +ü/"
    assert (filled.shown, filled.secret) == (HIDDEN, True)
    assert "s3cr" not in repr(filled)
    plain = Variables(ENVIRON).fill("{{ env.X }} {ENV.Y}")
    assert (plain.value, plain.shown) == ("{{ env.X }} {ENV.Y}", "{{ env.X }} {ENV.Y}")


def test_only_variables_with_the_prefix_are_given_away() -> None:
    assert Variables(ENVIRON).fill("<{{ ENV.AWS_SECRET_ACCESS_KEY }}>").value == "<>"
    with pytest.raises(HookError, match="LAKEFSACTION_B not found: missing env var") as refused:
        Variables(ENVIRON).fill("{{ ENV.LAKEFSACTION_B }}")
    assert not refused.value.failed


def test_variables_are_filled_in_everywhere_in_a_value() -> None:
    value = {"a": ["{{ ENV.LAKEFSACTION_A }}", 1], "b": {"c": "{{ ENV.LAKEFSACTION_A }}"}, "d": True}
    secret = ENVIRON["LAKEFSACTION_A"]
    assert Variables(ENVIRON).fill_all(value) == {"a": [secret, 1], "b": {"c": secret}, "d": True}


def test_secrets_are_hidden_in_the_forms_in_which_they_come_back() -> None:
    variables = Variables(ENVIRON)
    secret = variables.fill("{{ ENV.LAKEFSACTION_A }}").value
    redaction = variables.redaction("another")
    forms = [
        secret,
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        json.dumps({"k": secret}),
        base64.b64encode(secret.encode()).decode(),
        "another",
    ]
    for form in forms:
        hidden = redaction.hide(f"<{form}>")
        assert HIDDEN in hidden
        assert form not in hidden
    assert redaction.hide("nothing") == "nothing"
    assert Redaction(["", "a", "ab"]).hide("abac") == f"{HIDDEN}{HIDDEN}c"
    assert Redaction().hide("x") == "x"
