"""Other repositories whose entries point into this namespace (imports, links): what they name is live here, too (L17).

    referring_repositories → repositories of the server → of each: staged entries → files of its `_lakefs/`
                                                            └──────── keys below this namespace ────────┘

repositories     which they are, and a view of a run that reads another repository and looks for this one's keys
staged           what their branches have staged
files            their range files, opened once
look             all of it; in the mark after this repository's own commits, and in each re-check

Every range file of such a repository counts, whatever names it: its rules and its Dredge's retention policy say nothing
here, a commit in the making has written its files, and one that was lost with a database has left them.
"""

from dredge.gc.referring.look import Referred, look_at_referring
from dredge.gc.referring.repositories import find_referring, open_referring

__all__ = ["Referred", "find_referring", "look_at_referring", "open_referring"]
