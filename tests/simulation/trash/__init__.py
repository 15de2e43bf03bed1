"""The parts of the trash cleaner's world: its rows, its model of what is named, its moves, its runs, its rules."""
