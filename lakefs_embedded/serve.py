"""`dredge serve`: run the embedded lakeFS."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import timedelta
from typing import Literal

import click

from dredge.commands import FiniteRange
from dredge.errors import ConfigError

KEY_ENV = "LAKECTL_CREDENTIALS_ACCESS_KEY_ID"
SECRET_ENV = "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"
SIGNING_ENV = "DREDGE_SERVER_SIGNING_KEY"


@click.command("serve", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--listen",
    default="127.0.0.1:8000",
    show_default=True,
    metavar="HOST:PORT",
    help="Port 0 takes a free one.",
)
@click.option(
    "--data", metavar="DIR", help="Folder for metadata, objects and the key pair; made when missing."
)
@click.option(
    "--kv", metavar="URL", help="Key-value store instead of the folder's, such as sqlite:///abs/kv.db."
)
@click.option(
    "--blockstore", type=click.Choice(["local", "s3", "gs", "azure"]), default="local", show_default=True
)
@click.option("--access-key-id", envvar=KEY_ENV, help=f"Key id of the administrator [env {KEY_ENV}].")
@click.option(
    "--local-import", is_flag=True, help="Let clients import objects from folders below DIR/objects."
)
@click.option(
    "--profile",
    type=click.Choice(["lakefs", "design"]),
    default="lakefs",
    show_default=True,
    help="Rules: today's lakeFS, or the stricter ones of its design (addresses for one link, tracked copies).",
)
@click.option(
    "--presign/--no-presign",
    default=True,
    show_default=True,
    help="Unless --blockstore is local: let clients read and write objects in the store itself, by signed URLs.",
)
@click.option(
    "--rbac",
    type=click.Choice(["none", "simplified", "internal"]),
    default="internal",
    show_default=True,
    help="none: one user, and calls about groups, policies and more users answer 501.",
)
@click.option(
    "--defect",
    "defects",
    multiple=True,
    metavar="NAME",
    help="Fault of a real server, for tests; repeatable.",
)
@click.option(
    "--prepare-branch-ms",
    type=FiniteRange(min=0),
    default=0,
    metavar="MS",
    help="Least time that preparing uncommitted addresses spends on a branch; a real server needs about 11.",
)
@click.option("--access-log/--no-access-log", default=False, help="One line a request on standard error.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line when ready instead of text.")
def command(
    listen: str,
    data: str | None,
    kv: str | None,
    blockstore: Literal["local", "s3", "gs", "azure"],
    access_key_id: str | None,
    local_import: bool,
    profile: Literal["lakefs", "design"],
    rbac: Literal["none", "simplified", "internal"],
    presign: bool,
    defects: tuple[str, ...],
    prepare_branch_ms: float,
    access_log: bool,
    as_json: bool,
) -> None:
    """Run the embedded lakeFS server until SIGTERM or Ctrl-C.

    It speaks lakeFS's HTTP API, so lakectl, lakefs-sdk and the lakefs package work with it. Storage
    namespaces are local:///… folders below DIR/objects, s3://bucket/prefix with --blockstore s3 (reached
    by the usual AWS_… variables), gs://bucket/prefix with --blockstore gs (by Google's), or
    https://account.blob.core.windows.net/container/prefix with --blockstore azure (by the AZURE_… ones). The key pair
    comes from LAKECTL_CREDENTIALS_ACCESS_KEY_ID and LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY; without them one is made,
    kept in DIR/server.json and shown once. Secrets are never taken as arguments. That pair is the administrator's;
    more users, groups and policies are made through the API.

    

    Examples:
      dredge serve --data ./lake
      dredge serve --data ./lake --listen 127.0.0.1:0 --json
      dredge serve --blockstore s3 --data ./lake-metadata

    
    Exit codes: 0 stopped by a signal, 2 bad input, 4 the address is taken or a store does not answer,
    5 the key file is damaged.
    """
    from lakefs_embedded.catalog import Settings

    try:
        from lakefs_embedded.server import Credentials, DataFolder, ServerSettings, serve
    except ModuleNotFoundError as error:
        raise ConfigError(f"the server needs the extra `server` of this package ({error})") from None
    from dredge.storage import StorageOptions

    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s"
    )
    if access_log:
        logging.getLogger("lakefs_embedded.server.access").setLevel(logging.INFO)
    secret = os.environ.get(SECRET_ENV)
    if (access_key_id is None) != (secret is None):
        raise ConfigError(f"key id ({KEY_ENV} or --access-key-id) and secret ({SECRET_ENV}) come together")
    given = Credentials(access_key_id, secret) if access_key_id and secret else None
    if data is None and (kv is None or blockstore == "local"):
        raise ConfigError(
            "give --data DIR (without it, both --kv URL and a --blockstore other than local are needed)"
        )

    folder = None if data is None else DataFolder.open(data, given)
    made = folder.created if folder else given is None
    credentials = folder.credentials if folder else given or Credentials.generate()
    signing_key = os.environ.get(SIGNING_ENV) or (
        folder.signing_key if folder else credentials.secret_access_key
    )
    settings = ServerSettings(
        listen=listen,
        kv_url=kv or (folder.kv_url if folder else ""),
        blockstore=blockstore,
        local_base=folder.objects if folder and blockstore == "local" else None,
        local_import=local_import,
        storage=StorageOptions.from_env(),
        credentials=credentials,
        signing_key=signing_key,
        rbac=rbac,
        presign=presign,
        catalog=Settings(
            profile=profile,
            prepare_branch_time=timedelta(milliseconds=prepare_branch_ms),
        ),
        defects=frozenset(name.replace("-", "_") for name in defects),
    )
    namespace = (
        f"local://{folder.objects}/<repository>"
        if folder and blockstore == "local"
        else "https://<account>.blob.core.windows.net/<container>/<prefix>"
        if blockstore == "azure"
        else f"{blockstore}://<bucket>/<prefix>"
    )

    def ready(url: str) -> None:
        facts = {
            "url": url,
            "endpoint": f"{url}/api/v1",
            "access_key_id": credentials.access_key_id,
            "storage_namespace": namespace,
            "pid": os.getpid(),
        }
        if made:
            facts["secret_access_key"] = credentials.secret_access_key
        elif folder and given is None:
            facts["secrets_file"] = folder.secrets_path
        click.echo(json.dumps(facts) if as_json else _words(facts))
        sys.stdout.flush()

    serve(settings, ready)


def _words(facts: dict[str, object]) -> str:
    secret = facts.get("secret_access_key")
    where = f"the secret is in {facts['secrets_file']}" if "secrets_file" in facts else "the secret you gave"
    return "\n".join(
        [
            f"lakeFS (embedded) is ready at {facts['url']}",
            "",
            f"  export LAKECTL_SERVER_ENDPOINT_URL={facts['endpoint']}",
            f"  export {KEY_ENV}={facts['access_key_id']}",
            f"  export {SECRET_ENV}={secret}   (shown this once)"
            if secret
            else f"  export {SECRET_ENV}=…   ({where})",
            "",
            f"Storage namespaces: {facts['storage_namespace']}",
            "Stop it with Ctrl-C.",
        ]
    )
