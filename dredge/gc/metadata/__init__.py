"""Range and metarange files that no commit names: what failed commits, merges and imports left behind.

history      every commit that is known, which of them matter, and what is at work
files        what lies in `_lakefs/`, and which commits name it
report       both together, with figures; only reads

collecting   a run: finds such files, and lets those go that have waited
waiting      the pending list of such files
named        what commits name, from the key-value store's records, again and again
taking       copies, exact versions, and the way back

A file that nothing names today may be needed tomorrow: `docs/decisions/metadata.md` says when it is safe that it goes.
"""
