"""What became of the mutants, kept with the code: a line for each function, and a table for people.

A line is the function's file and name, a digest of it, and a letter for each of its mutants in their order: f found,
e equivalent, l left, - not tried. It counts for the function as it was: one that was changed since is judged anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby
from pathlib import Path

from tests.mutations.mutants.mutant import Key, Mutant
from tests.mutations.mutants.results import HEADS, Result, Results, figures, rows_of

FOUND, EQUIVALENT, LEFT, NOT_TRIED = "fel-"
HEAD = """\
# Mutants

`./run mutate` breaks the lines that deletion hangs on, one at a time, and runs the tests that touch them, those that
mirror the file first. Left out by rule: texts, log lines and figures for people, and the files that only make those
(`SAYING` in [the program](__main__.py)). *Found* is
a mutant that a test, a seed of the simulator, or the end of time notices; *equivalent* one that nobody can notice, for
the reason in [equivalent.toml](equivalent.toml); *left* one that no test it was shown to noticed (the
quick ones beside it, as a rule: `--survivors` shows it to more); *not tried* one of a function that was
written or changed since it was last broken. `./run mutate --save` writes this page and
[judged.tsv](judged.tsv), from which the next call goes on.
"""


def adopt_judged(path: Path, mutants: Iterable[Mutant], results: Results) -> None:
    """Take from the file what is true of functions as they are now.

    Args:
        path: of the file; it need not be there.
        mutants: all of some files.
        results: gets it.
    """
    lines = [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []
    known = {(file, function): (digest, letters) for file, function, digest, letters in lines}
    for place, group in _by_function(mutants):
        digest, letters = known.get(place, ("", ""))
        if digest == results.digest(group[0]) and len(letters) == len(group):
            for mutant, letter in zip(group, letters, strict=True):
                if letter in {FOUND, LEFT}:
                    results.adopt(mutant, Result("a test" if letter == FOUND else "", 0, 0.0))


def save_judged(
    folder: Path, mutants: Collection[Mutant], results: Results, equivalents: Collection[Key]
) -> None:
    """Write the file and the page.

    Args:
        folder: where they go.
        mutants: all of the files that are broken when none is named.
        results: what is known of them.
        equivalents: those that nobody can notice.
    """
    lines = []
    for place, group in _by_function(mutants):
        letters = "".join(_letter(mutant, results, equivalents) for mutant in group)
        if set(letters) != {NOT_TRIED}:
            lines.append("\t".join((*place, results.digest(group[0]), letters)))
    (folder / "judged.tsv").write_text("".join(f"{line}\n" for line in lines))
    heads = [f"| File | {' | '.join(HEADS)} |", f"|---{'|--:' * len(HEADS)}|"]
    rows = [
        f"| {' | '.join(f'{cell}' for cell in row)} |"
        for row in rows_of(figures(mutants, results, equivalents))
    ]
    (folder / "README.md").write_text("\n".join((HEAD, *heads, *rows)) + "\n")


def _by_function(mutants: Iterable[Mutant]) -> list[tuple[tuple[str, str], list[Mutant]]]:
    """Mutants by file and outermost function; "" is what the import runs."""

    def place(mutant: Mutant) -> tuple[str, str]:
        return mutant.key.file, mutant.outer[0] if mutant.outer else ""

    return [(key, list(group)) for key, group in groupby(sorted(mutants, key=place), key=place)]


def _letter(mutant: Mutant, results: Results, equivalents: Collection[Key]) -> str:
    if mutant.key in equivalents:
        return EQUIVALENT
    result = results.get(mutant)
    if result is None:
        return NOT_TRIED
    return FOUND if result.by else LEFT
