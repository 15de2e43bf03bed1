"""Mutants that nobody can notice, each with the sentence why."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

from tests.mutations.mutants.mutant import Key, Mutant

EQUIVALENT = Path(__file__).parents[1] / "equivalent.toml"


def read_equivalents(path: Path = EQUIVALENT) -> dict[Key, str]:
    """Read the list.

    Args:
        path: of the list; it need not be there.

    Raises:
        ValueError: a mutant is there twice, or without a sentence.
    """
    found: dict[Key, str] = {}
    for entry in tomllib.loads(path.read_text()).get("mutant", []) if path.exists() else []:
        why = entry.pop("why", "")
        key = Key(**entry)
        if key in found or not why:
            raise ValueError(f"{path.name}: {key} is there twice, or without saying why")
        found[key] = why
    return found


def stale_ones(equivalents: Iterable[Key], mutants: Iterable[Mutant], files: Iterable[str]) -> list[Key]:
    """Give the entries that are about no mutant any more.

    Args:
        equivalents: the list.
        mutants: all of some files.
        files: these files.
    """
    known, looked = {mutant.key for mutant in mutants}, set(files)
    return [key for key in equivalents if key.file in looked and key not in known]
