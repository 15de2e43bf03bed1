"""Pointers of code, tests and pages lead to an entry, a page or a test, never out of the repository."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DECISIONS = DOCS / "decisions"
FOLDERS = (
    "benchmarks",
    "dags",
    "demo",
    "docs",
    "dredge",
    "lakefs_embedded",
    "operators",
    "plugins",
    "spark_jobs",
    "tests",
)
ENDINGS = {".md", ".py", ".proto", ".toml", ".yaml", ".yml", ".j2"}
BEHAVIOUR = {
    "L": DOCS / "lakefs-behaviour.md",
    "I": DOCS / "icechunk-behaviour.md",
    "P": DOCS / "platform-behaviour.md",
}

POINTER = re.compile(r"(?<![\w./-])([LIP])(\d{1,2})(?![\w-])")
ENTRY = re.compile(r"^### ([LIP])(\d+)\. ", re.MULTILINE)
TRAP_TEST = re.compile(r"def (test_traps?_(?:\d+_(?:and_)?)+)")
TEST = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
DESIGN = re.compile(r"\b[Dd]esign\s+\"([^\"]+)\"")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
DECISION = re.compile(r"decisions/([\w-]+)")
OUTSIDE = re.compile(
    r"\btraps? T?\d"  # the numbers of a list that is not here
    r"|\bfacts (?:on|about|define)\b|\bthe facts\b|\bfacts/\w"
    r"|\bseed \"|\bseeds/|\bthe (?:seed|seeds)(?:'s? | asks| says| models| names)"
    r"|\bdesign\.md\b"
    r"|\bdecisions? \d{2,}|\bdecisions/\d"
    r"|(?<!\w)/(?:home|root|work)/",
    re.IGNORECASE,
)


def files() -> Iterator[Path]:
    """Every text file that a person reads, but this one and generated code."""
    yield from (
        path for path in ROOT.iterdir() if path.suffix in ENDINGS or path.name in ("run", "Dockerfile")
    )
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in ENDINGS and path != Path(__file__) and not path.stem.endswith("_pb2"):
                yield path


TEXTS = {str(path.relative_to(ROOT)): path.read_text() for path in files()}
PAGES = sorted(name for name in TEXTS if name.endswith(".md"))


def entries(letter: str) -> list[int]:
    return [int(number) for kind, number in ENTRY.findall(BEHAVIOUR[letter].read_text()) if kind == letter]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as a repository host makes them."""
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(page.read_text())]
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("letter", BEHAVIOUR)
def test_entries_are_numbered_from_one_without_gap_or_repetition(letter: str) -> None:
    assert entries(letter) == list(range(1, len(entries(letter)) + 1))


def test_every_pointer_to_an_entry_finds_it() -> None:
    known = {(letter, number) for letter in BEHAVIOUR for number in entries(letter)}
    lost = {
        f"{name}: {letter}{number}"
        for name, text in TEXTS.items()
        for letter, number in POINTER.findall(text)
        if (letter, int(number)) not in known
    }
    assert not lost


def test_every_test_of_a_trap_is_about_an_entry_on_lakefs() -> None:
    numbers = {
        f"{name}: {test}": [int(number) for number in re.findall(r"\d+", test)]
        for name, text in TEXTS.items()
        for test in TRAP_TEST.findall(text)
    }
    assert len(numbers) > 40
    assert not {test for test, found in numbers.items() if not set(found) <= set(entries("L"))}


def test_every_test_that_a_page_names_exists() -> None:
    tests = {test for text in TEXTS.values() for test in TEST.findall(text)}
    named = {(name, test) for name in PAGES for test in re.findall(r"`(test_\w+(?:…|\*)?)`", TEXTS[name])}
    lost = {
        f"{name}: {test}"
        for name, test in named
        if not any(fnmatchcase(known, test.replace("…", "*")) for known in tests)
    }
    # An example of how a test is to be named is no pointer.
    assert lost <= {"CONTRIBUTING.md: test_sweep_keeps_an_object_committed_during_the_listing"}


@pytest.mark.parametrize("letter", BEHAVIOUR)
def test_every_entry_that_says_it_is_held_by_tests_names_one(letter: str) -> None:
    parts = re.split(r"(?m)^### |^## ", BEHAVIOUR[letter].read_text())
    without = [part.splitlines()[0] for part in parts if ENTRY.match("### " + part) and "`test_" not in part]
    assert without in ([], ["P9. `airflow standalone` leaves its children behind"])


def test_no_pointer_leads_out_of_the_repository() -> None:
    lost = {
        f"{name}:{number}: {line.strip()}"
        for name, text in TEXTS.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if OUTSIDE.search(line)
    }
    assert not lost


def test_every_design_document_that_is_cited_is_in_the_list() -> None:
    listed = BEHAVIOUR["L"].read_text().split("## Design documents")[1].lower()
    cited = {" ".join(title.split()).lower() for text in TEXTS.values() for title in DESIGN.findall(text)}
    assert {"lakefs on kv", "uncommitted garbage collector"} <= cited
    assert not {title for title in cited if f'"{title}"' not in listed and title != "…"}


def test_every_reference_to_a_decision_finds_its_page() -> None:
    lost = {
        f"{name}: {page}"
        for name, text in TEXTS.items()
        for page in DECISION.findall(text)
        if not (DECISIONS / f"{page}.md").exists()
    }
    assert not lost


def test_every_decision_has_a_status_and_one_line_in_the_index() -> None:
    pages = {path.name: path.read_text() for path in DECISIONS.glob("*.md") if path.name != "README.md"}
    assert {
        name for name, text in pages.items() if not re.match(r"# .+\n\nStatus: (accepted|superseded)\b", text)
    } == set()
    assert {name for name, text in pages.items() if "**What would change our mind.**" not in text} == set()
    index = re.findall(
        r"^\|[^|]*\| \[[^\]]+\]\(([^)]+)\) \|.+\| (accepted|superseded)[^|]*\|$",
        TEXTS["docs/decisions/README.md"],
        re.MULTILINE,
    )
    assert sorted(name for name, _ in index) == sorted(pages)
    for name, status in index:
        assert f"Status: {status}" in pages[name]


@pytest.mark.parametrize("name", PAGES)
def test_every_link_of_a_page_leads_somewhere(name: str) -> None:
    for link in LINK.findall(TEXTS[name]):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = ((ROOT / name).parent / place).resolve() if place else ROOT / name
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link
