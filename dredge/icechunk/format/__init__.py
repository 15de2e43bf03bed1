"""The files of an Icechunk repository, spec versions 1 and 2: a module for each file type, bytes in, values out."""
