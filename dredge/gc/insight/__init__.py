"""Analyses of a finished run: why an object stays, storage cost, what-if for other rules.

base_run        the run: its listing, staging and history; listed objects beside labels
why             the reasons for keeping an object: `why_evidence` collects them, `why_answer` has the answer and its
text
cost            storage cost by kind, branch and age, from the owners of ranges
what_if         objects freed by other retention rules; makes the rules and shows the figures

Analyses only read.
"""
