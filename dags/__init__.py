"""DAGs: wiring and Params. Each module is a file for a DAGs folder, or imported by one."""
