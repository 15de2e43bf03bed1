"""Range and metarange files that no commit names: what failed commits, merges and imports left behind. Only reads.

history   every commit that is known, which of them matter, and what is at work
files     what lies in `_lakefs/`, and which commits name it
report    both together, with figures

Nothing here is deleted: `docs/safety.md` says why a file that nothing names today may be needed tomorrow.
"""

from dredge.gc.metadata.report import MetadataReport, look_at_metadata, report_lines

__all__ = ["MetadataReport", "look_at_metadata", "report_lines"]
