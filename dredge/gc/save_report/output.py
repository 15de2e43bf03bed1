"""What save_report leaves in the run folder."""

from __future__ import annotations

from dredge.runs.summary import StepOutput


class SaveReportOutput(StepOutput):
    """The report. It reads whatever the other steps left, so it demands none of them."""

    STEP = "save_report"


class OwnFilesOutput(StepOutput):
    """What was removed of Dredge's own files; reads the last step of a complete run, which differs with dry runs."""

    STEP = "own_files"
