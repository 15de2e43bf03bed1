"""Settings that a user gives: each is one field of a dataclass, which says everything about it.

    @dataclass(frozen=True, kw_only=True)
    class Config:
        clean_every_days: float = setting("Days between clean runs", "An `auto` run is …", default=30.0, minimum=0)

The field's name, type and default are the setting's. From the fields come the form of a DAG (`Setting.schema`), what
operators and commands hand in (`read_settings`), the check of values that code gives (`check_settings`), the options
of a command (`dredge.commands.options`) and the table in the docs (`table_of`). Fields without `setting` are none of a
user's business.

What is handed in may be rendered text: "25", "True", "None". Empty text and None mean "no value" where a setting may
have none, and the default where it is a number; yes or no must be said, and nothing vague is taken for either.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import types
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from dredge.errors import ConfigError

type Kind = Literal["string", "number", "integer", "boolean", "array"]

_KEY = "setting"
_KINDS: dict[Any, Kind] = {str: "string", float: "number", int: "integer", bool: "boolean"}
_WORDS = {"string": "text", "number": "a number", "integer": "a whole number", "array": "a list"}
_NOTHING = ("", "None")
DAYS_MAX = 36_500.0
"""A hundred years: with much longer ones no date can be computed, so they are refused like any other wrong value."""
HOURS_MAX = 24 * DAYS_MAX
SECONDS_MAX = 3600 * HOURS_MAX


class SettingError(ConfigError):
    """An invalid value of a setting.

    Args:
        name: of the setting, as in a form.
        text: the rest of the message.
    """

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name} {text}")
        self.name, self.text = name, text


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting, as its field describes it.

    Attributes:
        field: name of the field.
        name: what users call it: Param, key of a config, option of a command.
        title: a few words.
        description: sentences, in Markdown.
        kind: as JSON schema names types.
        optional: it may have no value.
        required: it must be given.
        default: a JSON value; None when there is none.
        choices: the only values it may have; () is any.
        minimum: smallest value.
        above: the value must be larger than this.
        maximum: largest value.
        because: why there is a bound, for messages.
        multiline: the form offers several lines.
    """

    field: str
    name: str
    title: str
    description: str
    kind: Kind
    optional: bool
    required: bool
    default: Any
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    because: str = ""
    multiline: bool = False

    def read(self, value: Any) -> Any:
        """Turn what was given, perhaps as text, into a value that was checked.

        Raises:
            ConfigError: it does not fit; with the name of the setting and what is allowed.
        """
        found = self._coerced(value)
        self.check(found)
        return found

    def check(self, value: Any) -> None:
        """Look whether a value is one of the choices and within the bounds.

        Raises:
            ConfigError: it is not.
        """
        if value is None:
            if not self.optional:
                raise self._wrong(value)
        elif self.kind == "array":
            if any(item not in self.choices for item in value):
                raise self._wrong(value)
        elif self.choices:
            if value not in self.choices:
                raise self._wrong(value)
        elif self.kind in ("number", "integer"):
            low = self.minimum is not None and value < self.minimum
            low = low or (self.above is not None and value <= self.above)
            high = self.maximum is not None and value > self.maximum
            # What is not a number compares false with every bound, so a limit of that kind would hold nothing.
            if low or high or (isinstance(value, float) and not math.isfinite(value)):
                raise self._wrong(value)

    @property
    def allowed(self) -> str:
        """What it may be, in words: `a number of at least 25`."""
        if self.kind == "boolean":
            return "true or false"
        if self.kind == "array":
            return f"a list of {', '.join(self.choices)}"
        if self.choices:
            return _listed(self.choices)
        bounds = [
            f"{words} {bound:,.12g}"
            for words, bound in (
                ("at least", self.minimum),
                ("more than", self.above),
                ("at most", self.maximum),
            )
            if bound is not None
        ]
        return f"{_WORDS[self.kind]}{f' of {" and ".join(bounds)}' if bounds else ''}"

    def schema(self) -> dict[str, Any]:
        """As JSON schema, without title, description and default."""
        found: dict[str, Any] = {"type": ["null", self.kind] if self.optional else self.kind}
        if self.kind == "array":
            found["items"] = {"type": "string", "enum": list(self.choices)}
            found["examples"] = list(self.choices)
        elif self.choices:
            found["enum"] = [None, *self.choices] if self.optional else list(self.choices)
        elif self.kind == "string" and not self.optional:
            found["minLength"] = 1
        if self.multiline:
            found["format"] = "multiline"
        bounds = {"minimum": self.minimum, "exclusiveMinimum": self.above, "maximum": self.maximum}
        return found | {name: bound for name, bound in bounds.items() if bound is not None}

    def _coerced(self, value: Any) -> Any:
        if self.kind == "boolean":
            return truth(self.name, value)
        if self.kind == "array":
            return _items(value)
        if value is None or (isinstance(value, str) and value.strip() in _NOTHING):
            if self.optional:
                return None
            if self.kind == "string":
                raise self._wrong(None if self.required else value)
            return self.default
        if self.kind == "string":
            if not isinstance(value, str):
                raise self._wrong(value)
            return value
        return self._number(value)

    def _number(self, value: Any) -> float | int:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self._wrong(value)
        try:
            if self.kind == "integer" and not isinstance(value, float):
                with suppress(ValueError):
                    return int(value)  # exact, however large
            number = float(value)
        except (ValueError, OverflowError):
            raise self._wrong(value) from None
        if self.kind == "number":
            return number
        if not number.is_integer():
            raise self._wrong(value)
        return int(number)

    def _wrong(self, value: Any) -> ConfigError:
        if self.required and value is None:
            return SettingError(self.name, f"is empty; it must be given: {self.description}")
        given = f"{value:g}" if isinstance(value, float) else repr(value)
        empty = ", or empty for no value" if self.optional else ""
        because = f": {self.because}" if self.because else ""
        return SettingError(self.name, f"is {given}; it may be {self.allowed}{empty}{because}")


def setting(
    title: str,
    description: str,
    *,
    default: Any = dataclasses.MISSING,
    name: str = "",
    kind: Kind | None = None,
    choices: Sequence[str] = (),
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    because: str = "",
    multiline: bool = False,
) -> Any:
    """Make a dataclass field that is a setting.

    Args:
        title: a few words.
        description: sentences, in Markdown.
        default: without one, the setting must be given.
        name: what users call it, when that is not the field's name.
        kind: of what users give, when that is not the field's type.
        choices: the only values it may have.
        minimum: smallest value.
        above: the value must be larger than this.
        maximum: largest value.
        because: why there is a bound, for messages.
        multiline: the form offers several lines.
    """
    said = {
        "title": title,
        "description": description,
        "name": name,
        "kind": kind,
        "choices": tuple(choices),
        "minimum": minimum,
        "above": above,
        "maximum": maximum,
        "because": because,
        "multiline": multiline,
    }
    return dataclasses.field(default=default, metadata={_KEY: said})


@functools.cache
def settings_of(kind: type) -> tuple[Setting, ...]:
    """List the settings among a dataclass's fields, in their order."""
    hints = typing.get_type_hints(kind)
    return tuple(
        _of(field, hints[field.name]) for field in dataclasses.fields(kind) if _KEY in field.metadata
    )


def read_settings(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Read what a user gave for a dataclass.

    Args:
        kind: the dataclass.
        given: values by name of the setting, as they are or as rendered text.

    Returns:
        Checked values by name of the field; settings that were not given are missing.

    Raises:
        ConfigError: an unknown name, a value that does not fit, or one that is missing.
    """
    if not isinstance(given, Mapping):
        raise ConfigError(f"settings must be names with values, not {given!r}")
    known = {found.name: found for found in settings_of(kind)}
    unknown = sorted(str(name) for name in given if name not in known)
    if unknown:
        raise ConfigError(f"unknown setting {with_nearest(unknown[0], known)}")
    values = {known[name].field: known[name].read(value) for name, value in given.items()}
    for found in known.values():
        if found.required:
            found.read(values.get(found.field))
    return values


def with_nearest(name: str, known: Iterable[str]) -> str:
    """Return an unknown name with the valid name that is most like it, for a message.

    Args:
        name: what was given.
        known: valid names.

    Returns:
        `keep_tag; nearest is keep_tags; known are …`, without a nearest one where none is like it.
    """
    names = sorted(known)
    like = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    nearest = f"; nearest is {like[0]}" if like else ""
    return f"{name}{nearest}; known are {', '.join(names)}"


def check_settings(values: Any, without: Collection[str] = ()) -> None:
    """Check the settings of a dataclass instance, whoever made it.

    Args:
        values: the instance.
        without: fields that have a check of their own.

    Raises:
        ConfigError: one does not fit.
    """
    for found in settings_of(values.__class__):
        value = getattr(values, found.field)
        if found.field not in without and isinstance(value, str | int | float | list | tuple | None):
            if found.required and value == "":
                value = None
            found.check(value)


def check_finite(values: Any, where: str = "") -> None:
    """Check that no number of a dataclass instance is infinite or not a number: such a bound would hold nothing.

    Args:
        values: the instance.
        where: of the fields in a larger object, such as `safety.`, for messages.

    Raises:
        ConfigError: one is.
    """
    for item in dataclasses.fields(values):
        value = getattr(values, item.name)
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{where}{item.name} is {value:g}; it must be a finite number")


def truth(name: str, value: Any) -> bool:
    """Read a yes or no that may be text; nothing else is taken for either.

    Raises:
        ConfigError: it is neither.
    """
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{name} is {value!r}; it may be true or false")
    return text == "true"


def table_of(settings: Iterable[Setting]) -> str:
    """Draw settings as a Markdown table, one row each."""
    rows = ["| Name | Default | Allowed | |", "|---|---|---|---|"]
    for found in settings:
        default = "must be given" if found.required else _shown(found.default)
        words = f"{found.title}. {found.description}".replace("|", "\\|")
        rows.append(
            f"| `{found.name}` | {default} | {found.allowed}{', or empty' if found.optional else ''} | {words} |"
        )
    return "\n".join(rows)


def _of(field: dataclasses.Field[Any], hint: Any) -> Setting:
    said = dict(field.metadata[_KEY])
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    plain = [part for part in parts if part is not types.NoneType]
    kind = said.pop("kind") or _KINDS[plain[0]]
    default: Any = field.default
    required = default is dataclasses.MISSING
    return Setting(
        **{**said, "name": said["name"] or field.name},
        field=field.name,
        kind=kind,
        optional=types.NoneType in parts,
        required=required,
        default=None if required else list(default) if kind == "array" else default,
    )


def _items(value: Any) -> tuple[str, ...]:
    """Read a list that may be text: `a,b` or `['a', 'b']`."""
    if value is None or (isinstance(value, str) and value.strip() in _NOTHING):
        return ()
    words = value.strip().strip("[]()").split(",") if isinstance(value, str) else value
    found = (str(word).strip(" '\"") for word in words)
    return tuple(word for word in found if word)


def _listed(choices: Sequence[str]) -> str:
    return " or ".join([", ".join(choices[:-1]), choices[-1]] if len(choices) > 1 else choices)


def _shown(value: Any) -> str:
    if value is None or value == []:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float | int) else f"`{value}`"
