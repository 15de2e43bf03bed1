"""`./run simulate`: plays histories, shrinks what fails, and tells what was seen."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.simulation.finding import chosen, find_all

WORLDS = ("gc", "icechunk", "trash")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code: 0 when all histories are well, 1 when one is not."""
    asked = _parser().parse_args(arguments)
    seconds = asked.minutes * 60
    if asked.known_bugs is not None:
        return find_all(chosen(asked.known_bugs, asked.world), asked.world, asked.seed, seconds)
    from tests.simulation.hunting import hunt, play_one  # the product is imported only now

    if asked.one:
        return play_one(asked.world, asked.seed, _numbers(asked.only), asked.shrink_seconds, asked.trace)
    return hunt(asked.world, asked.seed, seconds, asked.histories, asked.shrink_seconds)


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    return [] if text == "none" else [int(number) for number in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./run simulate", description=__doc__)
    parser.add_argument("--world", choices=WORLDS, default="gc")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--histories", type=int, help="at most so many")
    parser.add_argument("--shrink-seconds", type=float, default=120.0, help="0 does not shrink")
    parser.add_argument(
        "--known-bugs",
        nargs="?",
        const="",
        metavar="TEXT",
        help="break the product with each known bug (whose name has that text), and tell after how many histories"
        " it was found, each within --minutes",
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
