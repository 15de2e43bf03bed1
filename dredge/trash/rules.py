"""What is trash, and why: a pure function of a look and the sightings before it.

The rules themselves are in `partition_rules` and `key_rules`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dredge.trash.classifier import Classifier
from dredge.trash.finding import TrashFinding
from dredge.trash.key_rules import keys
from dredge.trash.look import Look
from dredge.trash.margins import TrashMargins
from dredge.trash.noted import Noted
from dredge.trash.partition_rules import partitions
from dredge.trash.sightings import Sightings


@dataclass(frozen=True, slots=True)
class Classification:
    """The outcome of one look.

    Args:
        findings: everything that is not plainly live.
        sightings: to be remembered for the next look.
    """

    findings: tuple[TrashFinding, ...]
    sightings: Sightings


def classify(
    look: Look, before: Sightings, now: datetime, margins: TrashMargins, noted: Noted | None = None
) -> Classification:
    """Say of everything in a store whether it is trash.

    Args:
        look: what was seen.
        before: what earlier looks saw unused; empty at the first one.
        now: time of the look.
        margins: the margins.
        noted: what earlier looks saw named, this look included; None where nothing is remembered.

    Returns:
        Findings in order of partition and key, and the sightings to remember.
    """
    classifier = Classifier(look, before, now, margins, noted)
    findings = [*partitions(classifier), *keys(classifier)]
    findings.sort(key=lambda finding: (finding.partition, finding.key or b""))
    return Classification(tuple(findings), Sightings(tuple(classifier.seen), now))
