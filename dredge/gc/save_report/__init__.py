"""Step save_report: the end of a run, good or bad: state, own files, and the report."""

from dredge.gc.save_report.report import SaveReportOutput

__all__ = ["SaveReportOutput"]
