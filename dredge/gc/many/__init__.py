"""All repositories of a server, one run each: which of them, and what became of their runs.

choose      what a user may ask for; the repositories that are collected, and why the others are left out
collect     one repository after the other in this process; what became of each run

Each repository has a run of its own, with its own lease, plan and report; nothing here touches an object.
"""
