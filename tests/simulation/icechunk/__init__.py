"""The parts of Icechunk's world: files of both specs, writers that can be stepped, maintenance runs, and the rules."""
