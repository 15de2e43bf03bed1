"""lakefs-sdk without what nobody asked for: its client, before its 200 calls and models are loaded.

`import lakefs_sdk` makes a class of every call and of every model of the API: more than half a second and 20 MiB in
each task of a run, which sends requests and reads responses raw. So its two packages `lakefs_sdk` and
`lakefs_sdk.models` are put where Python looks for loaded ones, and are executed when somebody asks for a name of theirs
that is not there yet. Whoever else uses the SDK in this process gets everything it has, at that moment.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

from dredge.proxies import is_here, proxies_for

_PACKAGES = ("lakefs_sdk", "lakefs_sdk.models")
_PARTS = ("exceptions", "configuration", "rest", "api_response", "api_client")
"""In an order in which none asks the package for one that comes later."""
_executing = threading.RLock()
_late: set[str] = set()
"""Names of packages that were not executed yet."""


def load_client() -> None:
    """Load the parts of the SDK that send requests. Afterwards, importing them is quick."""
    with _executing:
        if _PACKAGES[0] not in sys.modules:
            for name in _PACKAGES:
                _put_off(name)
            for name in _PARTS:
                importlib.import_module(f"{_PACKAGES[0]}.{name}")


def go_through_proxy(configuration: Any, server: str) -> None:
    """Let requests go through the proxy that the environment names: the SDK reads no variable. This machine itself is
    asked directly, as by lakectl.

    Args:
        configuration: of the SDK.
        server: URL of the lakeFS server.
    """
    import urllib3

    for url in () if is_here(server) else proxies_for(server).values():
        configuration.proxy = url
        proxy = urlsplit(url)
        if proxy.username is not None:
            pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
            configuration.proxy_headers = urllib3.make_headers(proxy_basic_auth=pair)


class _LatePackage(ModuleType):
    """A package that is executed when a name is missing; other threads wait for it."""

    def __getattr__(self, name: str) -> Any:
        with _executing:
            self._execute()
        if name in vars(self):
            return vars(self)[name]
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def _execute(self) -> None:
        """Execute the package, unless that was done, or is what asks for the name."""
        spec = self.__spec__
        if self.__name__ in _late and spec is not None and spec.loader is not None:
            _late.remove(self.__name__)
            try:
                spec.loader.exec_module(self)
            except BaseException:
                _late.add(self.__name__)
                raise


def _put_off(name: str) -> None:
    """Let a package count as loaded without executing it."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        return  # importing a part of it will say so
    package = importlib.util.module_from_spec(spec)
    package.__class__ = _LatePackage
    _late.add(name)
    sys.modules[name] = package
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, package)
