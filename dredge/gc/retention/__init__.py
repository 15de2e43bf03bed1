"""Which commits stay active by lakeFS's rules, and what is kept beyond: policies, kept sets, rules about paths.

active          the walk over branches and commits, as a server makes it; the embedded lakeFS computes with it too
policy          the user's rules, as a value and as a file
kept_sets       what they and tags keep, as sets of commits with their ranges
path_rules      the entries that rules about paths keep
kept_figures    what each set amounts to, for the report
"""
