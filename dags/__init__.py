"""Wiring and Params; each module is a file for a DAGs folder, or imported by one there."""
