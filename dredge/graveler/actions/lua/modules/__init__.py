"""The modules that a script can `require`.

    strings · regexp · path · net/url                                       text.py
    encoding/json · yaml · base64 · hex · z85enc · parquet                  encoding.py
    crypto/aes · hmac · sha256 · uuid                                       crypto.py
    time                                                                    times.py
    net/http, if the server allows it                                       http.py
    lakefs                                                                  lakefs.py
    hook, and what Lua itself has                                           ../sandbox.lua

A real server has a few more, to export tables to other catalogs. A script that needs one of them fails, and says so.

Source: lakeFS pkg/actions/lua/open.go.
"""

from __future__ import annotations

from collections.abc import Callable

from dredge.graveler.actions.hooks import HookSettings
from dredge.graveler.actions.lua.library import Library
from dredge.graveler.actions.lua.modules import crypto, encoding, http, lakefs, text, times

_ALWAYS: dict[str, Library] = {**text.MODULES, **encoding.MODULES, **crypto.MODULES}
_NOT_HERE = ("aws", "azure", "gcloud", "databricks", "formats", "lakefs/catalogexport")


def find_module(name: str, settings: HookSettings, seconds_left: Callable[[], float]) -> Library:
    """The functions of a module.

    Args:
        name: as the script requires it.
        settings: what scripts may do.
        seconds_left: time until the script is ended; nothing waits longer.

    Raises:
        LookupError: there is no such module, or not on this server.
    """
    if name in _ALWAYS:
        return _ALWAYS[name]
    if name == "time":
        return times.library(seconds_left)
    if name == "lakefs":
        return lakefs.library(settings.call)
    if name == "net/http":
        if not settings.lua_net_http:
            raise LookupError("module 'net/http' not found: this server does not let scripts make requests")
        return http.library(seconds_left)
    if any(name == each or name.startswith(f"{each}/") for each in _NOT_HERE):
        raise LookupError(f"module '{name}' not found: a real lakeFS has it, this embedded server does not")
    raise LookupError(f"module '{name}' not found")
