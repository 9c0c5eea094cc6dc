"""The Python client of Bailiff: ask for things, wait for the answer, read the audit log.

    async with Client.connect() as client:
        asked = await client.submit(job, domain="a100")
        answer = await client.outcome_of(asked, timeout=10)

`client` talks to Kafka; `present` turns state into plain data; `eventline` turns records into lines for people;
`walk` verifies and replays a log. `cli` is the command on top of these. Nothing here decides anything.
"""

from .client import Asked, Client, Outcome
from .problem import ExitCode, Problem
from .settings import ClientSettings

__all__ = ["Asked", "Client", "ClientSettings", "ExitCode", "Outcome", "Problem"]
