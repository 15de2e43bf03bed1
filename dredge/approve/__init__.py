"""Approval of deletions by a person, for every collector.

settings    limits, and the rule for asking
records     the results of the steps check_limits and approve, the rule for asking; requests and answers, written once,
            and their checks by the sweep
step        the step itself, `Approvals` of a collector; the lease of a waiting run; the text of a request

The `ApproveOutput` of a collector names the results in its requests.
"""
