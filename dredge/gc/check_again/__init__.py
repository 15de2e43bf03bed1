"""Check again: what earlier runs deleted is compared with what is live now, in every complete mark.

find    addresses that a run deleted, that are live now and that the last finished check did not see live
judge   which of them an expired commit explains that the deleting run knew
check   brings both kinds back, writes alarms, and records the finished check
note    what a sweep writes before it deletes, so that all this is possible
"""
