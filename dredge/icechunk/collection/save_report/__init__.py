"""Step save_report: what became of the run, for people and for programs."""

from dredge.icechunk.collection.save_report.output import REPORT, SaveReportOutput

__all__ = ["REPORT", "SaveReportOutput"]
