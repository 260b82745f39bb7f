"""The environment variables. They stand apart, so that `--help` shows them without loading a configuration."""

from __future__ import annotations

ENVIRONMENT = {
    "INFERDOC_PROMETHEUS_URL": "The server that is read, as --prometheus.",
    "INFERDOC_STORE": "The embedded store, as --store.",
    "INFERDOC_BEARER_TOKEN_FILE": "A file with the token sent to the server.",
    "INFERDOC_PROMETHEUS_PASSWORD": "The password of --username.",
    "INFERDOC_BASELINES": "The folder of stored baselines.",
    "NO_COLOR": "Anything: no colour.",
}
"""Every variable that inferdoc reads, and what it is. A flag comes before it, the configuration file after it."""
