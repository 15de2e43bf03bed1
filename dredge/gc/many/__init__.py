"""The choice of the repositories of a server to collect, each by its own run, with its own lease, plan and report.

This package deletes nothing.
"""
