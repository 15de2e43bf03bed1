"""What a breakage says, and what several of them say."""

from typing import NamedTuple

from tests.mutations.edits import Both, Edit


class Breakage(NamedTuple):
    name: str  # of the breakage; a half sentence
    module: str  # where the guard is
    # that is the guard, or has it, with its class; a class alone for what its body says, "" for the module
    function: str
    edit: Edit | Both  # what becomes of one node of it
    tests: tuple[str, ...] = ()  # functions that fail then; they are looked up by name, wherever they live


HISTORIES = "test_an_optimized_run_deletes_what_a_clean_run_would_and_forgets_nothing"
"""A hunt that runs many histories."""
