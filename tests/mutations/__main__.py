"""`./run mutate`: breaks the product in one place after the other, and lists what no test notices."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click

from tests.mutations.breakages import BREAKAGES
from tests.mutations.mutants.equivalent import EQUIVALENT, read_equivalents, stale_ones
from tests.mutations.mutants.finding import find_edits
from tests.mutations.mutants.judged import adopt_judged, save_judged
from tests.mutations.mutants.judging import NO_SEEDS, Judge
from tests.mutations.mutants.mutant import Mutant, mutants_of
from tests.mutations.mutants.nearness import AROUND, OWN, REST, ROOM
from tests.mutations.mutants.results import Results, figures, table
from tests.mutations.mutants.touching import TestMap

ROOT = Path(__file__).resolve().parents[2]
GC = "dredge/gc"
DANGEROUS = (
    *(f"{GC}/{step}" for step in ("bulk_delete", "check_limits", "mark_uncommitted", "subtract")),
    *(f"dredge/storage/{name}.py" for name in ("deleting", "undo")),
    "dredge/approve",
    *(f"{GC}/{step}" for step in ("list_committed", "purge", "restore", "undo.py", "approve", "state")),
    *(f"{GC}/{step}" for step in ("metadata", "slice_listing", "index", "retention")),
    "dredge/undo",
    "dredge/runs",
    "dredge/trash",
    "dredge/icechunk/collection",
    *(
        f"dredge/icechunk/expiration/{name}.py"
        for name in ("apply", "by_library", "in_place", "plan", "rules")
    ),
    *(f"dredge/icechunk/{name}.py" for name in ("history", "repository", "rollback", "threshold")),
    "operators",
)
"""What is broken when nothing is named, most dangerous first."""
SAYING = frozenset(
    {"output.py", "codes.py", "words.py", "report.py", "rows.py", "examples.py", "question.py"}
    | {"by_branch.py", "largest.py", "markdown.py", "cost.py", "estimate.py", "drift.py", "early_deletion.py"}
    | {"pages.py", "pages_airflow.py", "settings_page.py", "links.py", "metrics.py", "mode.py"}
    | {"lineage.py", "lineage_facets.py", "lineage_teller.py", "lines.py", "kept_figures.py"}
    | {"curve.py", "progress.py", "report_rows.py"}
)
"""What only says something to people, or what a step hands on; it is broken when it is named."""
REACHES = {"own": OWN, "room": ROOM, "around": AROUND, "all": REST}
WORLDS = {"dredge/gc": "gc", "dredge/runs": "gc", "dredge/trash": "trash", "dredge/icechunk": "icechunk"}


@click.command()
@click.argument("paths", nargs=-1)
@click.option("--limit", type=int, default=None, help="Break so many at most; the next call goes on.")
@click.option("--survivors", is_flag=True, help="Only those that nobody noticed until now, again.")
@click.option("--lines-only", is_flag=True, help="Not what the import computes, which costs an import each.")
@click.option("--report", is_flag=True, help="Break nothing: figures, and who is left.")
@click.option("--save", is_flag=True, help="As --report, and write it into tests/mutations, to be committed.")
@click.option("--seconds", default=6.0, show_default=True, help="Of tests for each mutant, near ones first.")
@click.option("--seeds", default=4, show_default=True, help="Of the simulator, where no test noticed.")
@click.option(
    "--reach",
    type=click.Choice([*REACHES]),
    default="all",
    show_default=True,
    help="Which tests are asked: the file's own, those of its folder too, of folders above, all.",
)
@click.option("--tests", default=("tests/unit",), multiple=True, show_default=True, help="Folders of tests.")
@click.option(
    "--product", multiple=True, default=("dredge", "operators"), help="Folders whose lines are mapped."
)
@click.option("--root", type=click.Path(path_type=Path), default=ROOT, hidden=True)
@click.option("--list", "listed", type=click.Path(path_type=Path), default=EQUIVALENT, hidden=True)
def main(
    paths: Sequence[str],
    limit: int | None,
    survivors: bool,
    lines_only: bool,
    report: bool,
    save: bool,
    seconds: float,
    seeds: int,
    reach: str,
    tests: Sequence[str],
    product: Sequence[str],
    root: Path,
    listed: Path,
) -> None:
    """Break the lines of PATHS one at a time and run the tests that touch them."""
    if save and paths:
        raise click.UsageError("--save is of everything that is broken when nothing is named")
    os.nice(19)
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit("ended; the next call goes on")
    )  # a mutant ends with this process
    root = root.resolve()
    state = root / ".dredge" / "mutants"
    results, equivalents = Results(state / "results.jsonl", root), read_equivalents(listed)
    files = list(_files(root, paths or DANGEROUS))
    mutants = [mutant for file in files for mutant in mutants_of(root, file, find_edits)]
    adopt_judged(listed.parent / "judged.tsv", mutants, results)
    wanted = [mutant for mutant in mutants if mutant.key not in equivalents]
    known = {mutant.key: results.get(mutant) for mutant in wanted}
    if survivors:
        todo = [mutant for mutant in wanted if (result := known[mutant.key]) is not None and not result.by]
    else:
        todo = [mutant for mutant in wanted if known[mutant.key] is None]

    # What the import runs costs an import of the product each: last, or not now.
    todo = sorted(
        (mutant for mutant in todo if mutant.outer or not lines_only), key=lambda mutant: mutant.outer is None
    )

    def work(judge: Judge) -> None:
        for breakage in BREAKAGES:
            judge.prefer(breakage.file, breakage.tests)
        for number, mutant in enumerate(todo[:limit], 1):
            result = judge.judge(mutant)
            results.put(mutant, result)
            _say(f"{number}/{len(todo[:limit])}  {result.seconds:5.1f} s  {_line(mutant, result.by)}")

    if todo[:limit] and not (report or save):
        lines = TestMap(state / "lines.json", root)
        judge = Judge(
            root, product, lines, work, _seeds(seeds), seconds, REACHES[reach], _say, results.found()
        )
        if code := judge.run(tests, state / "scratch"):
            sys.exit(code)
    if save:
        save_judged(listed.parent, mutants, results, equivalents)
    stale = stale_ones(equivalents, mutants, files)
    left = [mutant for mutant in wanted if (result := results.get(mutant)) is not None and not result.by]
    for mutant in left:
        print(f"left: {_line(mutant, '')}")
    for key in stale:
        print(f"{listed.name} names what is no mutant any more: {key}")
    print("\n".join(table(figures(mutants, results, equivalents))))
    sys.exit(1 if left or stale else 0)


def _files(root: Path, paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        place = root / path
        if not place.exists():
            raise click.BadParameter(f"{path} is not there")
        for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
            if place.is_file() or file.name not in SAYING:
                yield str(file.relative_to(root))


def _line(mutant: Mutant, by: str) -> str:
    key = mutant.key
    words = f"found by {by}" if by else "NOBODY NOTICED"
    number = f" ({key.number})" if key.number > 1 else ""
    return f"{key.file}:{mutant.line} {key.function}: {key.old}  ->  {key.new}{number}: {words}"


def _seeds(count: int) -> Callable[[str], Iterator[tuple[str, Callable[[], bool]]]]:
    """Short histories of the simulator, for the files that have a world there."""
    if not count:
        return NO_SEEDS
    _is_wrong("gc", None)  # imports the simulator, before any mutant

    def seeds(file: str) -> Iterator[tuple[str, Callable[[], bool]]]:
        world = next((world for folder, world in WORLDS.items() if file.startswith(folder)), "")
        for seed in range(count if world else 0):
            yield f"seed {seed} of {world}", functools.partial(_is_wrong, world, seed)

    return seeds


def _is_wrong(world: str, seed: int | None) -> bool:
    """Whether a history breaks a rule; what is imported when it begins may be broken."""
    from tests.simulation.history import play
    from tests.simulation.worlds import WORLDS as SIMULATED

    return seed is not None and play(SIMULATED[world](), seed).error is not None


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
