"""Settings for users: each setting is a field of a dataclass.

    @dataclass(frozen=True, kw_only=True)
    class Config:
        clean_every_days: float = setting("Days between clean runs", "An `auto` run is …", default=30.0, minimum=0)

The field gives name, type and default. It determines the form of a DAG (`Setting.schema`), the values of operators and
commands (`read_settings`), the check of values in code (`check_settings`), the options of a command
(`dredge.commands.printing`) and the table in the docs (`table_of`). Fields without `setting` are internal.

Values may be rendered text: "25", "True", "None". Empty text and None mean no value for an optional setting, and the
default for a number. A boolean must be true or false.
"""

import dataclasses
import difflib
import functools
import math
import types
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, Self

from msgspec import Struct

from dredge.errors import ConfigError

type Kind = Literal["string", "number", "integer", "boolean", "array"]

_KEY = "setting"
_KINDS: dict[Any, Kind] = {str: "string", float: "number", int: "integer", bool: "boolean"}
_WORDS = {"string": "text", "number": "a number", "integer": "a whole number", "array": "a list"}
_NOTHING = ("", "None")
# A hundred years: dates cannot be computed for much longer times.
DAYS_MAX = 36_500.0
HOURS_MAX = 24 * DAYS_MAX
SECONDS_MAX = 3600 * HOURS_MAX


class SettingError(ConfigError):
    """An invalid value of a setting."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name} {text}")
        self.name, self.text = name, text


class Setting(Struct, frozen=True, kw_only=True):
    """One setting."""

    field: str
    name: str  # for users: Param, key of a config, option of a command
    title: str
    description: str  # sentences, in Markdown
    kind: Kind
    optional: bool
    required: bool  # it must be given
    default: Any
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    above: float | None = None  # lower bound that is not valid itself
    maximum: float | None = None
    because: str = ""  # reason of a bound, for messages
    multiline: bool = False

    def read(self, value: Any) -> Any:
        """Convert and check an input, which may be text. Raises ConfigError with the setting's name and its valid
        values."""
        found = self._coerced(value)
        self.check(found)
        return found

    def check(self, value: Any) -> None:
        """Check a value against choices and bounds; raises ConfigError."""
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
            # NaN compares false with every bound, so such a limit would limit nothing.
            if low or high or (isinstance(value, float) and not math.isfinite(value)):
                raise self._wrong(value)

    @property
    def allowed(self) -> str:
        """The valid values in words: `a number of at least 25`."""
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
        """Return the JSON schema without title, description and default."""
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
            return SettingError(self.name, f"is required, but empty: {self.description}")
        given = f"{value:g}" if isinstance(value, float) else repr(value)
        empty = ", or empty for no value" if self.optional else ""
        because = f": {self.because}" if self.because else ""
        return SettingError(self.name, f"is {given}; it must be {self.allowed}{empty}{because}")


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
    """Make a dataclass field for a setting; see `Setting` for the arguments."""
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
    """Return the settings of a dataclass, in their order."""
    hints = typing.get_type_hints(kind)
    return tuple(
        _of(field, hints[field.name]) for field in dataclasses.fields(kind) if _KEY in field.metadata
    )


def read_settings(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Check a user's values for the settings of a dataclass; returns them by field, without settings that have no
    value. `given` has values by setting, also as rendered text. Raises ConfigError for an unknown name, an invalid
    value, or a missing required value."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"settings must be a mapping of names to values, not {given!r}")
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
    """Return an unknown name with the most similar valid name and all valid names, for a message."""
    names = sorted(known)
    like = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    nearest = f"; nearest is {like[0]}" if like else ""
    return f"{name}{nearest}; valid are {', '.join(names)}"


def check_settings(values: Any, without: Collection[str] = ()) -> None:
    """Check the settings of a dataclass instance, except the fields in `without`; raises ConfigError."""
    for found in settings_of(values.__class__):
        value = getattr(values, found.field)
        if found.field not in without and isinstance(value, str | int | float | list | tuple | None):
            if found.required and value == "":
                value = None
            found.check(value)


class Settings:
    """Base of the dataclasses of settings: checks values, and reads those of users."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_settings(self)

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Self:
        """Read the Params of a DAG, an operator's `config`, or the options of a command; they may be rendered text.
        Raises ConfigError: an unknown name, or an invalid value."""
        return cls(**read_settings(cls, params))


def check_finite(values: Any, where: str = "") -> None:
    """Check that all numbers of a dataclass instance are finite, because infinite bounds limit nothing. `where` is the
    prefix of the fields in messages, such as `safety.`. Raises ConfigError."""
    for item in dataclasses.fields(values):
        value = getattr(values, item.name)
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{where}{item.name} is {value:g}; it must be a finite number")


def split_words(text: str | None) -> list[str]:
    """The words of a setting, separated by commas or spaces."""
    return (text or "").replace(",", " ").split()


def truth(name: str, value: Any) -> bool:
    """Read a boolean, also as text; raises ConfigError for all other values."""
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{name} is {value!r}; it must be true or false")
    return text == "true"


def table_of(settings: Iterable[Setting]) -> str:
    """Format settings as a Markdown table."""
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
    return f"{value:,.15g}" if isinstance(value, float | int) else f"`{value}`"
