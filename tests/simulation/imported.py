"""Imports the product, in the parent of forked processes."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # it would start threads

from tests.simulation.machine import import_product

import_product()
