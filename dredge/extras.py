"""Packages that an extra of Dredge brings, and the one error where it is not installed."""

from __future__ import annotations

import importlib

from dredge.errors import ConfigError


def need(module: str, extra: str) -> None:
    """Look whether a module of an extra can be imported; the module is loaded then.

    Args:
        module: its name.
        extra: that brings it.

    Raises:
        ConfigError: it cannot.
    """
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{error.name or module} is not installed: it comes with the extra {extra}, as in pip install"
            f" 'dredge[{extra}]'. Install it here, and for Spark's executors. Nothing was touched."
        ) from None
