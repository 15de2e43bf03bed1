"""What a run saw, looked at again afterwards: why an object stays, what objects cost, what other rules would free, and
what a run will cost. Nothing here deletes.

base_run        the run: its listing, staging and history; records of lakeFS's key-value store
addresses       what ranges name; listed objects beside labels
why             everything that keeps an object: `why_evidence` finds it, `why_answer` has the answer and its words
cost            what objects cost by kind, branch, age and prefix: `cost_labels` says whose each range is
what_if         what other retention rules would free: `proposals` makes the rules and shows the figures
run_cost        what a run will cost, by the last ones of its kind
"""
