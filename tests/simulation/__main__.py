"""`./run simulate`: plays histories, shrinks failures, and prints the results."""

import argparse
import os
import sys
from collections.abc import Sequence

from tests.simulation.finding import ALL, HASH_SEED, chosen, find_all
from tests.simulation.focus import ANYTHING, Focus

WORLDS = ("decision", "gc", "gc-wait", "icechunk", "trash")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0 without a broken rule, else 1."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if os.environ.get(HASH_SEED) != "0":  # else the order of sets would make a seed's histories differ
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *(arguments or sys.argv[1:])],
            {**os.environ, HASH_SEED: "0"},
        )
    if asked.world == ALL and asked.known_bugs is None:
        parser.error(f"--world {ALL} goes with --known-bugs")
    seconds = asked.minutes * 60
    if asked.known_bugs is not None:
        return find_all(chosen(asked.known_bugs, asked.world), asked.cpu_seconds)
    from tests.simulation.hunting import hunt, play_one  # the product is imported only now
    from tests.simulation.worlds import WORLDS

    world = WORLDS[asked.world](focus=asked.focus)
    asked.focus.check(world.scenes, world.settings)
    if asked.one:
        return play_one(world, asked.seed, _numbers(asked.only), asked.shrink_seconds, asked.trace)
    return hunt(world, asked.seed, seconds, asked.histories, asked.shrink_seconds)


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    return [] if text == "none" else [int(number) for number in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./run simulate", description=__doc__)
    parser.add_argument("--world", choices=(*WORLDS, ALL), default="gc", help="all goes with --known-bugs")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--histories", type=int, help="at most so many")
    parser.add_argument("--shrink-seconds", type=float, default=120.0, help="0 does not shrink")
    parser.add_argument(
        "--known-bugs",
        nargs="?",
        const="",
        metavar="TEXT",
        help="break the product with each known bug (whose name has that text, or one of A|B), and tell which rule is"
        " broken by the history that the list names; where it is none, others are played",
    )
    parser.add_argument(
        "--cpu-seconds", type=float, default=0.0, help="for each known bug that must be hunted, of one core"
    )
    parser.add_argument(
        "--focus",
        type=Focus.from_text,
        default=ANYTHING,
        metavar="JSON",
        help="scenes and values of the setting that histories have more often than others, such as"
        ' \'{"scenes": ["orphan"]}\'',
    )
    parser.add_argument("--one", action="store_true", help="only this seed, and its digest")
    parser.add_argument("--only", metavar="N,N", help="with --one: only these moves; 'none' for none")
    parser.add_argument(
        "--trace",
        type=int,
        default=0,
        metavar="LINES",
        help="with --one: the last lines of the trace; -1 is all",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
