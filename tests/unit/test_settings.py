"""Settings are read from values and from rendered text alike, and checked in one place."""

from dataclasses import dataclass
from typing import Any

import pytest

from dredge.errors import ConfigError
from dredge.settings import SECONDS_MAX, check_settings, read_settings, setting, settings_of, table_of, truth


@dataclass(frozen=True, kw_only=True)
class Config:
    name: str = setting("Name", "What it is called.")
    mode: str = setting("Mode", "How.", default="auto", choices=("auto", "clean"))
    dry: bool = setting("Dry run", "Delete nothing.", default=True)
    age: float = setting("Age", "How old.", default=25.0, minimum=25, because="younger ones may live")
    share: float | None = setting("Share", "At most.", default=None, minimum=0, maximum=100)
    count: int | None = setting("Count", "At most.", default=None, minimum=0)
    rate: float | None = setting("Rate", "At most.", default=None, above=0)
    kinds: tuple[str, ...] = setting("Kinds", "Of what.", default=(), kind="array", choices=("a", "b"))
    rules: object | None = setting("Rules", "In words.", default=None, name="policy", kind="string")
    own: int = 3

    def __post_init__(self) -> None:
        check_settings(self)


def read(**given: Any) -> dict[str, Any]:
    return read_settings(Config, {"name": "x", **given})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"age": "48"}, 48.0),
        ({"age": 48}, 48.0),
        ({"age": " 48.5 "}, 48.5),
        ({"age": "None"}, 25.0),
        ({"age": ""}, 25.0),
        ({"age": None}, 25.0),
        ({"share": "2.5"}, 2.5),
        ({"share": "None"}, None),
        ({"share": " "}, None),
        ({"count": "10"}, 10),
        ({"count": 10.0}, 10),
        ({"count": "1e3"}, 1000),
        ({"count": "9007199254740993"}, 9007199254740993),
        ({"rate": "0.1"}, 0.1),
        ({"dry": "False"}, False),
        ({"dry": " true "}, True),
        ({"dry": False}, False),
        ({"mode": "clean"}, "clean"),
        ({"kinds": "['a', 'b']"}, ("a", "b")),
        ({"kinds": "a,b"}, ("a", "b")),
        ({"kinds": ["b"]}, ("b",)),
        ({"kinds": "[]"}, ()),
        ({"kinds": None}, ()),
    ],
)
def test_values_and_rendered_text_are_read_alike(given: dict[str, Any], expected: Any) -> None:
    (name,) = given
    found = read(**given)[name]
    assert (found, type(found)) == (expected, type(expected))


def test_a_setting_is_known_by_its_name_and_kept_by_its_field() -> None:
    assert read(policy="keep")["rules"] == "keep"
    with pytest.raises(ConfigError, match="unknown setting rules"):
        read(rules="keep")


def test_what_was_not_given_has_the_default_of_its_field() -> None:
    assert read() == {"name": "x"}
    assert Config(**read()).age == 25.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"agee": 30}, "unknown setting agee; nearest is age; valid are age, count, dry"),
        ({"own": 30}, "unknown setting own"),
        ({"age": "many"}, "age is 'many'; it must be a number of at least 25: younger ones may live"),
        ({"age": 24.9}, "age is 24.9; it must be a number of at least 25"),
        ({"age": True}, "age is True"),
        ({"age": [30]}, r"age is \[30\]"),
        ({"age": "nan"}, "age is nan"),
        ({"age": "inf"}, "age is inf"),
        ({"age": 10**400}, "age is 1000"),
        ({"share": "nan"}, "share is nan; it must be a number of at least 0 and at most 100, or empty"),
        ({"share": 101}, "share is 101"),
        ({"share": float("nan")}, "share is nan"),
        ({"count": 1.5}, "count is 1.5; it must be a whole number of at least 0, or empty"),
        ({"count": "-1"}, "count is -1"),
        ({"count": "inf"}, "count is 'inf'"),
        ({"rate": 0}, "rate is 0; it must be a number of more than 0"),
        ({"mode": "fast"}, "mode is 'fast'; it must be auto or clean"),
        ({"mode": None}, "mode is None; it must be auto or clean"),
        ({"name": 7}, "name is 7; it must be text"),
        ({"name": ""}, "name is required, but empty"),
        ({"name": None}, "name is required"),
        ({"kinds": "a,c"}, "a list of a, b"),
    ],
)
def test_what_does_not_fit_is_named_with_what_is_allowed(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(**given)


def test_what_must_be_given_is_missed() -> None:
    with pytest.raises(ConfigError, match="name is required, but empty: What it is called"):
        read_settings(Config, {})


@pytest.mark.parametrize("given", [None, "x", [("name", "x")]])
def test_settings_have_names(given: Any) -> None:
    with pytest.raises(ConfigError, match="a mapping of names to values"):
        read_settings(Config, given)


@pytest.mark.parametrize("value", ["", "None", "no", "0", "1", None, 1])
def test_nothing_vague_is_taken_for_yes_or_no(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"dry is .*; it must be true or false"):
        read(dry=value)
    with pytest.raises(ConfigError):
        truth("x", value)


@pytest.mark.parametrize("wrong", [{"age": 3.0}, {"share": 101.0}, {"mode": "x"}, {"name": ""}])
def test_code_that_makes_one_is_checked_alike(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} is"):
        Config(**{"name": "x", **wrong})


def test_bounds_are_written_out() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Long:
        wait: float = setting("Wait", "How long.", default=0.5, above=0.25, maximum=SECONDS_MAX)

    assert settings_of(Long)[0].allowed == "a number of more than 0.25 and at most 3,153,600,000"


def test_every_setting_has_a_row_of_its_own() -> None:
    rows = table_of(settings_of(Config)).splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [found.name for found in settings_of(Config)]
    assert rows[0].startswith("| `name` | must be given | text |")
    assert "| 25 | a number of at least 25 |" in rows[3]
