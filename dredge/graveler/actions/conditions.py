"""Conditions of hooks: `if: success()`, `failure()`, `!success() || true`.

    success()   no hook before this one in its action has failed
    failure()   one has

Understood are both, `true` and `false`, `! && || == !=` and their names `not and or`, and parentheses. A real server
evaluates a whole expression language; what is not understood here fails the hook.

Source: lakeFS pkg/actions/service.go (runHookIfEval).
"""

from __future__ import annotations

import re

from dredge.graveler.actions.errors import HookError

_TOKEN = re.compile(
    r"\s*(success\s*\(\s*\)|failure\s*\(\s*\)|true\b|false\b|not\b|and\b|or\b|&&|\|\||==|!=|[!()])"
)
_NAMES = {"not": "!", "and": "&&", "or": "||"}


def holds(condition: str, *, failed: bool) -> bool:
    """Evaluate a condition.

    Args:
        condition: "" for the default, which is success().
        failed: whether a hook before has failed.

    Raises:
        HookError: the condition is not understood.
    """
    if not condition:
        return not failed
    return _Parser(condition, failed).parse()


class _Parser:
    """Recursive descent: or → and → equality → not → a value or parentheses."""

    def __init__(self, condition: str, failed: bool) -> None:
        self._condition = condition
        self._values = {"true": True, "false": False, "success": not failed, "failure": failed}
        self._tokens = self._split(condition)

    def parse(self) -> bool:
        value = self._or()
        if self._tokens:
            raise self._misunderstood()
        return value

    def _split(self, text: str) -> list[str]:
        tokens: list[str] = []
        rest = text.rstrip()
        while rest:
            match = _TOKEN.match(rest)
            if match is None:
                raise self._misunderstood()
            token = match[1].partition("(")[0].rstrip() or match[1]
            tokens.append(_NAMES.get(token, token))
            rest = rest[match.end() :]
        return tokens

    def _or(self) -> bool:
        value = self._and()
        while self._take("||"):
            other = self._and()
            value = value or other
        return value

    def _and(self) -> bool:
        value = self._equality()
        while self._take("&&"):
            other = self._equality()
            value = value and other
        return value

    def _equality(self) -> bool:
        value = self._not()
        while self._tokens[:1] in (["=="], ["!="]):
            same = self._tokens.pop(0) == "=="
            value = (value == self._not()) is same
        return value

    def _not(self) -> bool:
        if self._take("!"):
            return not self._not()
        if self._take("("):
            value = self._or()
            if not self._take(")"):
                raise self._misunderstood()
            return value
        if not self._tokens or self._tokens[0] not in self._values:
            raise self._misunderstood()
        return self._values[self._tokens.pop(0)]

    def _take(self, token: str) -> bool:
        if self._tokens[:1] != [token]:
            return False
        self._tokens.pop(0)
        return True

    def _misunderstood(self) -> HookError:
        return HookError(
            f"hook 'if' expression {self._condition!r} is not understood: success(), failure(), true, false and "
            "! && || == != are",
            failed=False,
        )
