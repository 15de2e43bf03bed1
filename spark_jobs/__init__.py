"""The distributed steps: one module a step, `run(spark, config) -> StepSummary` and a tiny `main()`."""
