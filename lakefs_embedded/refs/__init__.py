"""Repositories, branches, commits and tags: records, life-cycles, and expressions that name commits."""
