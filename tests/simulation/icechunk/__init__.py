"""The parts of Icechunk's world: files of both specs, steppable writers, maintenance runs, and the rules."""
