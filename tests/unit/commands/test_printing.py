"""A local run that a service has stopped says how it goes on."""

import pytest

from dredge.commands.printing import print_resume
from dredge.errors import DredgeError, PartialError, RefusedError, UnavailableError


@pytest.mark.parametrize(
    ("error", "is_named"), [(UnavailableError, True), (PartialError, True), (RefusedError, False)]
)
def test_what_another_try_may_mend_names_the_command(
    error: type[DredgeError], is_named: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(error), print_resume("dredge gc", "memory://runs/r1"):
        raise error("down")
    assert ("dredge gc resume memory://runs/r1" in capsys.readouterr().err) is is_named
