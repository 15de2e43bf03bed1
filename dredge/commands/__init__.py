"""The sub-commands of `dredge`: a module for each command, with a click object named `command`."""
