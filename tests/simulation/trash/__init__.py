"""The parts of the trash cleaner's world: its rows, its model of references, its moves, its runs, its rules."""
