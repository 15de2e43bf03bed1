"""Icechunk repositories: read their files, plan and apply expirations, collect what nothing reaches.

A reader's path: `format` (what the bytes say) → `history` (snapshots, parents, refs) → `expiration` (a plan
as a value, then its execution) → `collection` (mark, sweep). Only `library` imports the icechunk package.
"""
