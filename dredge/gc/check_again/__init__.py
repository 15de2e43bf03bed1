"""Check again: every complete mark compares the deletions of earlier runs with the live set.

find    deleted addresses, live now and new since the last finished check; hits explained by an expired commit
check   restores both kinds, writes alarms, and records the finished check
"""
