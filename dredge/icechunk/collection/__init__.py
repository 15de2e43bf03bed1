"""Collection: delete the objects that no snapshot reaches; `steps` has all steps in order.

`outputs` has the results that each step hands to later steps. Only `deleting` has a deleter; all other modules read the
repository and write into the run's folder.
"""
