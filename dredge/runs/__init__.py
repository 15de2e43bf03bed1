"""What all collectors share: run folders, step summaries, task runners, ledger, limits, lease, report."""
