"""Environment variables in the properties of hooks, and how their values stay out of logs.

    headers: {Authorization: "Bearer {{ ENV.LAKEFSACTION_TOKEN }}"}

Only variables whose name begins with a prefix are given to hooks; any other one is empty text. What came from a
variable is a secret: whoever may upload an action file can use it, nobody can read it in what a run leaves behind.

Source: lakeFS pkg/actions/secure_string.go, pkg/config/defaults.go (`actions.env`).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, quote_plus

from dredge.graveler.actions.errors import HookError

PREFIX = "LAKEFSACTION_"
HIDDEN = "*******"
_REFERENCE = re.compile(r"\{\{ ?ENV\.(.*?) ?\}\}")


@dataclass(frozen=True, slots=True)
class Filled:
    """A text with its variables filled in.

    Attributes:
        value: to be used.
        secret: whether there were any.
    """

    value: str = field(repr=False)
    secret: bool = False

    @property
    def shown(self) -> str:
        """The text for logs."""
        return HIDDEN if self.secret else self.value


class Variables:
    """The environment variables that hooks may use.

    Args:
        environ: all variables.
        prefix: only those whose name begins with it may be used.
    """

    def __init__(self, environ: Mapping[str, str], prefix: str = PREFIX) -> None:
        self._environ = environ
        self._prefix = prefix
        self._used: set[str] = set()

    def fill(self, text: str) -> Filled:
        """Fill variables in.

        Raises:
            HookError: a variable does not exist.
        """
        filled = _REFERENCE.sub(lambda match: self._look_up(match[1].strip()), text)
        return Filled(filled, secret=_REFERENCE.search(text) is not None)

    def fill_all(self, value: Any) -> Any:
        """Fill variables in wherever there is text in a value."""
        if isinstance(value, str):
            return self.fill(value).value
        if isinstance(value, dict):
            return {key: self.fill_all(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.fill_all(each) for each in value]
        return value

    def redaction(self, *others: str) -> Redaction:
        """What must not be seen after the fillings so far.

        Args:
            others: further secrets that were made of them.
        """
        return Redaction((*self._used, *others))

    def _look_up(self, name: str) -> str:
        if not name.startswith(self._prefix):
            return ""
        if name not in self._environ:
            raise HookError(f"{name} not found: missing env var", failed=False)
        self._used.add(self._environ[name])
        return self._environ[name]


class Redaction:
    """Hides secrets in text, also as URLs, JSON and base64 write them.

    Args:
        secrets: the secrets; empty ones are ignored.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets for form in _forms(secret) if form}
        longest_first = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def hide(self, text: str) -> str:
        """The text without secrets."""
        return text if self._pattern is None else self._pattern.sub(HIDDEN, text)


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(secret.encode()).decode().rstrip("=")
