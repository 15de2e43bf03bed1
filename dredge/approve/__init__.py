"""A person says whether what a run found may be deleted: the same for every collector.

settings    what a user may ask for: limits, and who is asked when
asking      what a run must have that asks
output      what the guards and the step `approve` leave; each collector has classes of its own
needed      whether somebody has to be asked
records     what was asked and answered, written once
proof       what the sweep demands of the answers
waiting     the lease of a run that waits
step        the step itself: `Approvals` of a collector
question    what people are shown
words       the same in reports

Each collector says in its `ApproveOutput` which results its questions are about.
"""
