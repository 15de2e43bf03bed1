"""Collections of all repositories of a server, one run each.

choose      the settings; the collected repositories, and the reasons for leaving others out
collect     collects one repository after the other in this process; the outcome of each run

Each repository has its own run, with its own lease, plan and report. This package deletes nothing.
"""
