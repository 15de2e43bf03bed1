"""Identity and access of the embedded lakeFS: users, their access keys and permissions.

Start at `accounts.py` (used by requests), then `directory.py` (stored records) and `permissions.py` (policies). The
partition `auth` has a real server's format, except for the encryption of secrets.
"""
