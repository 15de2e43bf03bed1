"""What is kept beyond the server's answer: retention policies, kept sets, rules about paths.

policy          the user's rules, as a value and as a file
kept_sets       what they and tags keep, as sets of commits with their ranges
path_rules      the entries that rules about paths keep
kept_figures    what each set amounts to, for the report
"""
