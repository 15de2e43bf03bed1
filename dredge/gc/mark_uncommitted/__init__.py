"""Step mark_uncommitted: the staged addresses of all branches.

staged        the files of staged addresses, and one scan of staging by the server
proof         comparison of a scan with each branch's own list of changes
kv_store      lakeFS's key-value store: access, records of a repository, and the check that it is the server's own
staging       the step: scans and key-value records, until they are proved complete
"""
