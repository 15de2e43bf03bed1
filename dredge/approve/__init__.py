"""A person says whether what a run found may be deleted: the same for every collector.

settings    what a user may ask for: limits, and who is asked when
output      what the guards and the step `approve` leave, and whether somebody has to be asked
records     what was asked and answered, written once
step        the step itself, `Approvals` of a collector; what the sweep demands of the answers; the lease of a run that
            waits
question    what people are shown, there and in reports

Each collector says in its `ApproveOutput` which results its questions are about.
"""
