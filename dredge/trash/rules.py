"""What is trash, and why: a pure function of a look, and of what earlier looks saw named.

The rules themselves are in `partition_rules` and `key_rules`. What is trash goes once it has waited (`waiting`).
"""

from __future__ import annotations

from datetime import datetime

from dredge.trash.classifier import Classifier
from dredge.trash.finding import TrashFinding
from dredge.trash.key_rules import keys
from dredge.trash.look import Look
from dredge.trash.margins import TrashMargins
from dredge.trash.noted import Noted
from dredge.trash.partition_rules import partitions


def classify(
    look: Look, now: datetime, margins: TrashMargins, noted: Noted | None = None
) -> tuple[TrashFinding, ...]:
    """Say of everything in a store whether it is trash.

    Args:
        look: what was seen.
        now: time of the look.
        margins: the margins.
        noted: what earlier looks saw named, this look included; None where nothing is remembered.

    Returns:
        Everything that is not plainly live, in order of partition and key.
    """
    classifier = Classifier(look, now, margins, noted)
    findings = [*partitions(classifier), *keys(classifier)]
    return tuple(sorted(findings, key=lambda finding: (finding.partition, finding.key or b"")))
