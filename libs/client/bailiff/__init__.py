"""The Python client of Bailiff: submit requests, wait for their outcome, read the audit log.

    async with Client.connect() as client:
        request = await client.submit(job, pool="a100")
        outcome = await client.outcome_of(request, timeout=10)

Packages: `client` (requests, previews, job files and other input files), `cli` (the `bailiff` command), `audit` (verify, replay,
prove), `explain`, `render` (state and records as data, tables and text), `dataset`, `policy`, `simulation`, `notify`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bailiff.client.client import Client, Outcome, SentRequest
    from bailiff.client.errors import ClientError, ExitCode
    from bailiff.client.settings import ClientSettings

__all__ = ["Client", "ClientError", "ClientSettings", "ExitCode", "Outcome", "SentRequest"]

_MODULES = {
    "SentRequest": "client", "Client": "client", "Outcome": "client", "ExitCode": "errors", "ClientError": "errors",
    "ClientSettings": "settings",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Loads the client on first use, so that the `bailiff` command starts without it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"bailiff.client.{_MODULES[name]}"), name)
