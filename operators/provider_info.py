"""Provider metadata for Airflow: the connection type `lakefs` and its form."""

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return the metadata; entry point `apache_airflow_provider`."""
    return {
        "package-name": "dredge",
        "name": "Dredge",
        "description": "Garbage collection for versioned data lakes.",
        "hooks": [
            {"integration-name": "lakeFS", "python-modules": ["airflow_dredge.operators.hooks.lakefs"]}
        ],
        "connection-types": [
            {
                "hook-class-name": "airflow_dredge.operators.hooks.lakefs.LakeFSHook",
                "hook-name": "lakeFS",
                "connection-type": "lakefs",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "port", "extra"],
                    "relabeling": {
                        "host": "Server URL",
                        "login": "Access key ID",
                        "password": "Secret access key",
                    },
                    "placeholders": {"host": "https://lakefs.example.com", "login": "AKIA…"},
                },
            }
        ],
    }
