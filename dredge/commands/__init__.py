"""The sub-commands of `dredge`: one module a command, each with a click object named `command`."""
