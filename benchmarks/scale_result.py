"""The figures of a measured run over a made-up lake, kept in a file."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self


@dataclass
class Result:
    """The figures of a run, kept in a file after each step.

    Attributes:
        revision: of this tree at the begin.
        run_uri: of the run; "" before it is planned.
        steps: figures by step.
        begun: the step in progress; still set after an interruption.
        continued: interrupted steps whose figures are of the rest only.
        found: deleted, missed and lost objects, after the last step.
    """

    revision: str
    run_uri: str = ""
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)
    begun: str = ""
    continued: list[str] = field(default_factory=list)
    found: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Read a result; None if there is none."""
        return cls(**json.loads(path.read_text())) if path.exists() else None

    def write(self, path: Path) -> None:
        """Replace the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(self)))
        draft.replace(path)
