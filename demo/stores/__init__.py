"""Object stores for the demo and the benchmarks: temporary emulators.

    local   a folder; no emulator
    s3      moto, a server in Python
    azure   Azurite, which `./run` installs with npm
    gcs     fake-gcs-server, a program in a wheel

docs/stores lists the differences between each emulator and its service.
"""

from demo.stores.open import STORES, Store, open_store

__all__ = ["STORES", "Store", "open_store"]
