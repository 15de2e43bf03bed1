"""Object stores for the demo and the benchmarks: emulators that are started for it, and gone at the end.

    local   a folder; no emulator
    s3      moto, a server in Python
    azure   Azurite, which `./run` installs by npm
    gcs     fake-gcs-server, a program in a wheel

What each does not do like the service is listed in docs/stores.
"""

from demo.stores.open import STORES, Store, open_store

__all__ = ["STORES", "Store", "open_store"]
