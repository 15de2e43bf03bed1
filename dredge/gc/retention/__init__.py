"""Retention: the commits kept by lakeFS's rules, and what policies keep beyond them.

active          active commits of a history, and the end of each commit
policy          the user's policy: patterns, rules, its file
kept_sets       commits kept by policies and tags, with their ranges
"""
