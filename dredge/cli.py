"""The `dredge` command: its groups are modules of `dredge.commands`, imported on use.

The embedded lakeFS is another package: `serve` comes from an entry point of the group `dredge.servers`.

Exit codes: 0 done · 1 error · 2 bad input · 3 refused by a safety check · 4 a service is not available ·
5 data that cannot be trusted · 6 not found · 7 conflict · 8 a defect of Dredge · 9 done in part (`dredge.errors`).
"""

import atexit
import gc
import importlib
import sys
import traceback
from importlib.metadata import entry_points
from typing import Any

import click

from dredge import __version__
from dredge.errors import ConfigError, DredgeError
from dredge.settings import SettingError

COMMANDS = {
    "gc": "Collect lakeFS repositories; runs and reports of collections.",
    "icechunk": "Expire and collect Icechunk repositories.",
    "spark-env": "Pack a Python with Dredge for Spark's executors.",
    "serve": "Run the embedded lakeFS server.",
    "ui": "Show what runs found, did and kept, in a browser.",
    "trash": "Find and remove trash in lakeFS's key-value store.",
}


class LazyGroup(click.Group):
    """A group with modules of `dredge.commands` as commands, loaded on first use to keep `--help` quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command by name; None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        if cmd_name == "serve":
            return _serve()
        command: click.Command = importlib.import_module(
            f"dredge.commands.{cmd_name.replace('-', '_')}"
        ).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])


class NoPandas:
    """A finder that hides pandas: pyarrow imports it with the first array, which takes 0.4 s and 40 MiB."""

    # Only for a process without other code: a pyarrow without pandas reads pandas' missing values as numbers.

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Refuse pandas; returns None for the other finders."""
        if name == "pandas":
            raise ModuleNotFoundError("the command does not use pandas", name=name)


def own_process() -> None:
    """Set up a process without other code: pandas is hidden, libraries are set up, and cycles are searched for rarely,
    and not at its end."""
    from dredge.process import search_few_cycles, set_up_libraries

    search_few_cycles()
    atexit.register(gc.freeze)  # else the interpreter searches all modules several times before it ends
    sys.meta_path.insert(0, NoPandas)
    set_up_libraries()


def _serve() -> click.Command:
    for found in entry_points(group="dredge.servers", name="serve"):
        command: click.Command = found.load()
        return command
    raise ConfigError("no server is installed: install it with its extra `server`")


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dredge")
def dredge() -> None:
    """Reclaim storage from versioned data lakes, and never delete a live object."""


def main(args: list[str] | None = None) -> Any:
    """Run the command line; the process ends with the exit code of the error's family. `args`: words after the
    program's name; None takes those of the process."""
    if args is None:
        own_process()
    try:
        dredge.main(args=args, prog_name="dredge")
    except DredgeError as error:
        text = str(error)
        if isinstance(error, SettingError):
            text = f"--{error.name.replace('_', '-')} {error.text}"
        click.echo(f"dredge: {text}", err=True)
        sys.exit(error.exit_code)
    except MemoryError:
        raise
    except Exception as error:
        from dredge.runs.failures import defect

        traceback.print_exc()
        found = defect("the command", error)
        click.echo(f"dredge: {found}", err=True)
        sys.exit(found.exit_code)
