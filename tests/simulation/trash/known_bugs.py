"""Bugs of the trash cleaner that its world must find: those of the list of mutations, and some of histories."""

from __future__ import annotations

from collections.abc import Mapping

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.breakages.trash import TRASH
from tests.simulation.focus import Focus

_T = "dredge/trash"
OF_HISTORIES = (
    Breakage(
        "records are read before what they may name, without a snapshot",
        f"{_T}/look.py",
        "references = early if view.consistent else read_references(view, shaped)",
        "references = early",
        (),
    ),
    Breakage(
        "sealed tokens name nothing",
        f"{_T}/references.py",
        "tuple(token.encode() for token in branch.tokens)",
        "(branch.staging_token.encode(),)",
        (),
    ),
    Breakage(
        "the second look is not compared with the first",
        f"{_T}/steps.py",
        "both = in_both(report.plan.findings, again.findings)",
        "both = report.plan.findings",
        (),
    ),
    Breakage(
        "changed bytes were seen all the same",
        f"{_T}/sightings.py",
        "if before is not None and before.digest == digest:",
        "if before is not None:",
        (),
    ),
    Breakage(
        "undo files are not written",
        f"{_T}/apply.py",
        "            self._undo.write([row for _, rows in doomed for row in rows])",
        "            pass",
        (),
    ),
    Breakage(
        "a token is only looked for at the first dash of its name",
        f"{_T}/names.py",
        'for cut, char in enumerate(names) if char == "-"]',
        'for cut, char in enumerate(names[: names.find("-") + 1]) if char == "-"]',
        (),
    ),
    Breakage(
        "a repository without a record is always what a delete left",
        f"{_T}/classifier.py",
        '        if staged:\n            return "lost"\n',
        '        return "leftovers"\n',
        (),
    ),
    Breakage(
        "staged changes prove nothing for a repository without a record",
        f"{_T}/classifier.py",
        '        if staged:\n            return "lost"\n',
        "",
        (),
    ),
    Breakage(
        "what was put back is forgotten before it is",
        f"{_T}/earlier.py",
        "    named = named_after_removal(state, look)\n    if not named:\n        return\n    written",
        "    return\n    named = named_after_removal(state, look)\n    written",
        (),
    ),
    Breakage(
        "a marker goes although its token is not empty",
        f"{_T}/key_rules.py",
        "if key in classifier.look.partitions:",
        "if False:",
        (),
    ),
    Breakage(
        "a status goes whenever it was updated",
        f"{_T}/key_rules.py",
        "if classifier.now - since < classifier.margins.expiry:",
        "if False:",
        (),
    ),
    Breakage(
        "an index of a pull request that is about to be written goes",
        f"{_T}/key_rules.py",
        'young = "young: its pull request may be about to be written" if classifier.is_young(made) else ""',
        'young = ""',
        (),
    ),
    Breakage(
        "the action runs of this life are of an earlier one",
        f"{_T}/key_rules.py",
        "if began < record.created - classifier.margins.instance_margin:",
        "if began < record.created + classifier.margins.id_age * 99:",
        (),
    ),
    Breakage(
        "an entry goes before its repository's rows",
        f"{_T}/deleted.py",
        "            if is_empty:\n                break\n",
        "            if not is_empty:\n                break\n",
        (),
    ),
    Breakage(
        "the entry of a repository that was handed over stays",
        f"{_T}/deleted.py",
        "if store.delete_rows([entry], [guard]) == [True]:",
        "if True:",
        (),
    ),
    Breakage(
        "orphans are never settled",
        f"{_T}/sightings.py",
        "            return before\n        return Sighting",
        "            return Sighting(partition, key, digest, now)\n        return Sighting",
        (),
    ),
)
WHY_NOT: Mapping[str, str] = {
    "a row is deleted by its key": "the drivers' own; tests/contract holds all of them to it",
    "an earlier life that comes back does not keep its hook results": "only the last record of a name is given back",
}
"""Why no history can show a bug."""
BESIDE: Mapping[str, tuple[Breakage, ...]] = {
    "a lost repository with a usable head is trash": (
        Breakage(
            "a life that lost its first commit and has a head is what a delete left",
            f"{_T}/classifier.py",
            "if not (heads or first) and all(",
            "if not first and all(",
            (),
        ),
    ),
    "the second look is not compared with the first": (
        Breakage(
            "a repository that comes back does not keep its hook results",
            f"{_T}/guards.py",
            "if finding.kind == OF_MISSING_REPOSITORY:",
            "if False:",
            (),
        ),
    ),
    "a marker goes although its token is not empty": (
        Breakage(
            "a marker is not held against its token when it is about to go",
            f"{_T}/apply.py",
            "if finding.partition == MARKERS and next(iter(view.scan(finding.key)), None) is not None:",
            "if False:",
            (),
        ),
    ),
}
"""Another guard that catches the same fault."""
FOCUS: Mapping[str, Focus] = {
    "any age of an id will do": Focus(("ahead",)),
    "a run that skipped every hook began in the year 1": Focus(("skipped",)),
    "a lost repository with a usable head is trash": Focus(("life_without_record",)),
    "a life that lost its first commit and has a head is what a delete left": Focus(("life_without_record",)),
    "a repository that comes back does not keep its hook results": Focus(("record_comes_back",)),
    "a hook run that comes back does not keep its parts": Focus(("hook_run_ends_late",)),
    "a restore queues tokens that branches name": Focus(("queued_by_mistake",)),
    "what was put back has no grace": Focus(("taken_back",)),
    "a record that comes right before the deletion saves nothing": Focus(("back_at_a_deletion",)),
    "a branch that comes right before the deletion saves nothing": Focus(("back_at_a_deletion",)),
    "what changed since the plan goes": Focus(("late_into_an_orphan",)),
    "what was removed and is named again stays removed": Focus(("named_afterwards", "back_at_a_deletion")),
    "an entry is believed against its record": Focus(("handed_over",), {"life cycle": ("step-2",)}),
    "what was handed over after the plan goes": Focus(("handed_over",), {"life cycle": ("step-2",)}),
    "records are read before what they may name, without a snapshot": Focus(
        ("named_while_looked_at",), {"snapshots": (False,)}
    ),
    "the second look is not compared with the first": Focus(("record_comes_back",)),
    "changed bytes were seen all the same": Focus(("late_into_an_orphan",)),
    "a token is only looked for at the first dash of its name": Focus(("back_at_a_deletion",)),
    "a repository without a record is always what a delete left": Focus(("life_without_record",)),
    "staged changes prove nothing for a repository without a record": Focus(("life_without_record",)),
    "what was put back is forgotten before it is": Focus(("named_afterwards",)),
    "a marker goes although its token is not empty": Focus(("late_into_a_queue",)),
    "an index of a pull request that is about to be written goes": Focus(("ahead",)),
    "an entry goes before its repository's rows": Focus(("handed_over",), {"life cycle": ("step-2",)}),
    "the entry of a repository that was handed over stays": Focus(
        ("handed_over",), {"life cycle": ("step-2",)}
    ),
}
"""What histories that hunt a bug have more often."""
BUGS = (*TRASH, *OF_HISTORIES)
