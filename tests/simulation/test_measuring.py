"""Promises of the measurement of known bugs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulation import finding
from tests.simulation.finding import Search, chosen, find_all
from tests.simulation.known_bugs import BUGS, KnownBug
from tests.simulation.results import Look, Results, source_of_tree

BUG = next(bug for bug in BUGS if not bug.why_not)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float]]:
    """Seeds and seconds that are hunted; the bug is found at seed 30."""
    found: list[tuple[int, float]] = []

    def hunt(look: Look, cpu_seconds: float) -> Look:
        found.append((look.seed, cpu_seconds))
        last = look.seed + int(cpu_seconds) - 1
        rule = "live" if look.seed <= 30 <= last else ""
        last = 30 if rule else last
        return replace(
            look, rule=rule, seed=last, histories=last - look.seed + 1, seconds=last - look.seed + 1.0
        )

    monkeypatch.setattr(finding, "_in_a_process", hunt)
    monkeypatch.setattr(finding.Player, "rule", lambda _self, _bug, _seed: "")
    return found


def _find(path: Path, seconds: float, bugs: tuple[KnownBug, ...] = (BUG,)) -> int:
    return find_all(bugs, Search(cpu_seconds=seconds, results=path))


def test_a_hunt_goes_on_where_the_last_one_ended(tmp_path: Path, asked: list[tuple[int, float]]) -> None:
    path = tmp_path / "results.jsonl"
    assert _find(path, 20.0) == 1
    assert _find(path, 20.0) == 1  # as long was looked already
    assert _find(path, 50.0) == 0
    assert _find(path, 90.0) == 0  # found is found
    assert asked == [(0, 20.0), (20, 30.0)]
    look = Results(path).of(BUG.world, BUG.name)
    assert look is not None
    assert (look.seed, look.histories, look.seconds, look.rule) == (30, 31, 31.0, "live")


def test_a_hunt_begins_anew_when_histories_are_others(tmp_path: Path, asked: list[tuple[int, float]]) -> None:
    results = Results(tmp_path / "results.jsonl")
    results.add(Look(BUG.world, BUG.name, "of another tree", seed=19, histories=20, seconds=20.0))
    assert _find(tmp_path / "results.jsonl", 20.0) == 1
    assert asked == [(0, 20.0)]
    look = Results(tmp_path / "results.jsonl").of(BUG.world, BUG.name)
    assert look is not None
    assert look.source == source_of_tree()


def test_a_history_that_breaks_a_rule_without_the_bug_finds_nothing(
    tmp_path: Path, asked: list[tuple[int, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding.Player, "rule", lambda _self, _bug, seed: "live" if seed == 30 else "")
    assert _find(tmp_path / "results.jsonl", 50.0) == 1
    assert asked == [(0, 50.0), (31, 19.0)]


def test_parts_share_the_bugs(asked: list[tuple[int, float]], capsys: pytest.CaptureFixture[str]) -> None:
    bugs = [bug for bug in BUGS if not bug.why_not][:5]
    shown = []
    for part in ((1, 2), (2, 2)):
        find_all(bugs, Search(cpu_seconds=1.0, part=part))
        shown.append(capsys.readouterr().out)
    assert all(sum(bug.name in text for text in shown) == 1 for bug in bugs)
    assert len(asked) == 5


def test_bugs_are_chosen_by_a_part_of_their_names_or_by_the_whole() -> None:
    assert BUG in chosen(BUG.name[2:8], BUG.world)
    assert chosen(f"={BUG.name}", BUG.world) == [BUG]
    assert chosen(f"=nothing|={BUG.name}", "all") == [BUG]
    assert len(chosen("", "all")) == len(BUGS)


def test_the_readme_tells_what_is_known() -> None:
    folder = Path(__file__).parent
    assert finding.table(BUGS, Results(folder / "known_bugs.jsonl")) in (folder / "README.md").read_text()


def test_the_page_tells_what_is_known() -> None:
    folder = Path(__file__).parent
    page = finding.page(BUGS, Results(folder / "known_bugs.jsonl"))
    assert page == (folder / "known_bugs.md").read_text()


def test_of_two_guards_broken_together_only_what_neither_shows_alone_counts(
    tmp_path: Path, asked: list[tuple[int, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = next(bug for bug in BUGS if bug.beside)
    played: list[tuple[str, ...]] = []

    class OneAlone(finding.Player):
        """With the other guard alone broken, seed 30 breaks the rule as well."""

        def rule(self, bug: KnownBug, seed: int) -> str:
            played.append(tuple(change.name for change in self._changes))
            return "live" if self._changes == pair.beside and seed == 30 else ""

    monkeypatch.setattr(finding, "Player", OneAlone)
    assert _find(tmp_path / "results.jsonl", 50.0, (pair,)) == 1
    assert asked == [(0, 50.0), (31, 19.0)]
    names = tuple(change.name for change in pair.changes), tuple(change.name for change in pair.beside)
    assert played == [(), *names]
