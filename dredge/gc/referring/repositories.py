"""Which repositories refer to this one, and how a run reads one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from dredge.errors import ConfigError, DredgeError, RefusedError, UnavailableError
from dredge.gc.config import EVERY_OTHER, GCConfig
from dredge.gc.namespaces import Keys
from dredge.gc.run import Run
from dredge.storage import open_reader, open_writer

FOLDER = "referring"
"""What is remembered of such repositories, a folder for each, relative to the folder of lease and index."""


@dataclass(slots=True)
class ReferringRun(Run):
    """A run as it reads another repository: plan, reader and index are about that one, and the keys that are looked for
    are those of the repository that is collected. It has no lease of its own and does no step."""

    into: str = ""

    @property
    def keys(self) -> Keys:
        """Which keys are looked for in the repository's entries."""
        return Keys(namespace=self.into, own=False)


def find_referring(config: GCConfig, namespaces: Mapping[str, str]) -> dict[str, str]:
    """Find the repositories whose entries count as live.

    Args:
        config: of the run.
        namespaces: URI by repository, all of the server.

    Returns:
        URI of the storage namespace by repository.

    Raises:
        ConfigError: a repository is named that the server does not list.
    """
    others = {name: uri for name, uri in sorted(namespaces.items()) if name != config.repository}
    if EVERY_OTHER in config.referring:
        return others
    wanted = config.referring - {config.repository}
    if missing := sorted(wanted - others.keys()):
        raise ConfigError(
            f"referring_repositories names {', '.join(missing)}, which the server does not list. Their entries may name"
            f" objects of {config.repository}. Nothing (more) was deleted. Mend the name, or take it away if the"
            " repository was deleted."
        )
    return {name: uri for name, uri in others.items() if name in wanted}


def open_referring(run: Run, name: str, namespace: str) -> ReferringRun:
    """Open another repository for a run.

    Args:
        run: the run.
        name: of the other repository.
        namespace: URI of its storage namespace.
    """
    config = replace(
        run.plan.config, repository=name, referring_repositories=None, policy=None, keep_tags=False
    )
    return ReferringRun(
        plan=replace(run.plan, repository=name, namespace=namespace, config=config),
        folder=run.folder,
        reader=open_reader(namespace, run.options),
        state=open_writer(f"{run.state.uri}/{FOLDER}/{name}", run.options),
        clock=run.clock,
        options=run.options,
        _client=run.client,
        into=run.plan.namespace,
    )


@contextmanager
def refusing(name: str, repository: str) -> Iterator[None]:
    """Say of an error which repository it is about, and that nothing was deleted for want of it.

    Args:
        name: of the repository that is read.
        repository: that is collected.
    """
    about = f"repository {name}, one of referring_repositories, cannot be read"
    try:
        yield
    except UnavailableError as error:
        raise UnavailableError(f"{about}: {error}") from error
    except DredgeError as error:
        raise RefusedError(
            f"{about}: {error} Its entries may name objects of {repository}, so nothing (more) was deleted. Mend that,"
            " or take it off referring_repositories."
        ) from error
