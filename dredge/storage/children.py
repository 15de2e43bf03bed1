"""What a child process, here or on another machine, must be told to reach the same stores."""

from __future__ import annotations

import os

from dredge.storage.options import StorageOptions


def environment_of_child(options: StorageOptions) -> dict[str, str]:
    """Give the variables from which `StorageOptions.from_env` makes these options in a child process, with secrets.

    Of S3, what AWS's configuration says on this machine is in them, so that a child asks the same store: None is none
    there as well. Credentials of the machine itself (a role) are not, and each machine has its own.

    Args:
        options: of this process.

    Raises:
        ConfigError: AWS's configuration contradicts itself.
    """
    if not _may_use_aws(options):
        return options.to_env()
    from dredge.storage.s3.resolving import for_another_process

    return for_another_process(options).to_env()


def _may_use_aws(options: StorageOptions) -> bool:
    """Whether AWS's configuration says anything here: asking takes half a second."""
    if any(name.startswith("AWS_") and value for name, value in os.environ.items()):
        return True
    plain = StorageOptions(
        local_base=options.local_base,
        delete_requests=options.delete_requests,
        azure=options.azure,
        gcs=options.gcs,
        unknown=options.unknown,
    )
    files = ("~/.aws/config", "~/.aws/credentials")
    return options != plain or any(os.path.exists(os.path.expanduser(file)) for file in files)
