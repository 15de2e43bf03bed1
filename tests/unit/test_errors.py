"""The shape of the error tree: retry policies and exit codes depend on it."""

import re

import pytest

from dredge import cli, errors
from tests.support.errors_page import PAGE, exit_codes, page


def test_every_family_has_its_own_kind_and_exit_code() -> None:
    families = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.DredgeError)]
    assert len({family.kind for family in families}) == len(families)
    direct = [family for family in families if errors.DredgeError in family.__bases__]
    assert len({family.exit_code for family in direct}) == len(direct) == 8


def test_every_error_says_what_to_do_in_words_of_its_own() -> None:
    kinds = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.DredgeError)]
    assert len({kind.what_to_do for kind in kinds}) == len(kinds)


def test_the_page_of_errors_says_what_the_code_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "docs/errors.md is old: run ./run docs"


def test_every_exit_code_of_the_help_is_in_the_table() -> None:
    told = re.findall(r"\b(\d) ", (cli.__doc__ or "").partition("Exit codes:")[2])
    assert told == [code for code, _ in exit_codes() if len(code) == 1]


@pytest.mark.parametrize(
    "kind", [errors.ConfigError, errors.RefusedError, errors.LeaseHeldError, errors.UnavailableError]
)
def test_the_command_ends_with_the_code_of_the_errors_family(
    kind: type[errors.DredgeError], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise kind("no")

    monkeypatch.setattr(cli.dredge, "main", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert str(ended.value.code) in dict(exit_codes())
    assert ended.value.code == kind.exit_code
    assert capsys.readouterr().err == "dredge: no\n"
