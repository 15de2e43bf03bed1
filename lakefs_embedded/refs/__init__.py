"""Repositories, branches, commits and tags: records, life-cycles, and ref expressions."""
