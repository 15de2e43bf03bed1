"""`dredge ui`: the pages of Dredge, for people with only the run folders."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from dredge.errors import ConfigError
from dredge.lakefs import LakeFSClient
from dredge.lakefs.client import ENDPOINT

if TYPE_CHECKING:
    from dredge.pages.places import ServerAsker


@click.command("ui", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("uri", metavar="FOLDER|URI")
@click.option(
    "--listen", default="127.0.0.1:8090", show_default=True, metavar="HOST:PORT", help="Served address."
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="HOST",
    help="Another host name of these pages, such as that of a proxy; repeatable.",
)
def command(uri: str, listen: str, names: tuple[str, ...]) -> None:
    """Show runs and their results in a browser. Read-only.

    The argument is a storage namespace, an Icechunk repository, a run root, the folder of one run, or a folder of
    several repositories: a path here, or a URI such as s3://bucket/repo. Stores are reached by the usual AWS_…
    variables; "why" asks the lakeFS server of the LAKECTL_… variables, where they are set.

    There is no login: do not listen on a shared address. Requests for other names than
    localhost, 127.0.0.1, [::1], that of --listen and those of --name are refused, against pages of other sites.

    \b
    Examples:
      dredge ui s3://bucket/my-repo
      dredge ui ./lake/objects/shop --listen 127.0.0.1:9000

    \b
    Exit codes: 0 ended by Ctrl-C · 2 bad input · 4 the store is not available
    """
    try:
        import uvicorn

        from dredge.pages.drawing import Pages
        from dredge.pages.web import OwnNames, find_names, listens_everywhere, make_app, warm_up
    except ImportError as error:
        raise ConfigError(f"{error.name} is missing: install dredge[server]") from None

    from dredge.pages.places import FolderPlaces

    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal():
        raise ConfigError(f"--listen {listen!r} is not HOST:PORT")
    places = FolderPlaces(uri if "://" in uri else os.path.abspath(uri))
    places.all()  # an invalid argument ends the command
    click.echo(f"http://{host}:{port}/")
    warm_up()
    app = OwnNames(
        make_app(Pages(places, _asker())), find_names(host, names), addresses=listens_everywhere(host)
    )
    uvicorn.run(app, host=host.strip("[]"), port=int(port), log_level="warning")


def _asker() -> ServerAsker | None:
    from dredge.pages.places import ServerAsker

    return ServerAsker(lambda _place: LakeFSClient.from_env()) if os.environ.get(ENDPOINT) else None
