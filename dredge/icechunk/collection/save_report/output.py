"""What save_report leaves."""

from __future__ import annotations

from dredge.runs.summary import StepOutput

REPORT = "report.json"
PAGE = "report.html"


class OwnFilesOutput(StepOutput):
    """What became of own files that nothing needs any more."""

    STEP = "own_files"


class SaveReportOutput(StepOutput):
    """How the run ended, and where its report lies."""

    STEP = "save_report"

    @property
    def outcome(self) -> str:
        """How the run ended: one of `report.OUTCOMES`."""
        found: str = self.detail("outcome")
        return found

    @property
    def page(self) -> str:
        """URI of the report as a page."""
        found: str = self.detail("page")
        return found
