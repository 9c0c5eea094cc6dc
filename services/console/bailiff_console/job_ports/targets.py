"""A port of a task, and the host name under which browsers reach it."""

import hashlib
from base64 import b32encode
from dataclasses import astuple, dataclass
from typing import Any
from urllib.parse import quote, urlsplit


@dataclass(frozen=True, slots=True)
class Target:
    """seq: the record that submitted the job: another job of the same name later has another host name."""

    pool: str
    job: str
    seq: int
    task: int
    port: int

    @property
    def label(self) -> str:
        """The first label of the host name."""
        text = "/".join(quote(str(part), safe="") for part in astuple(self))
        return b32encode(hashlib.sha256(text.encode()).digest()[:20]).decode().lower()

    @property
    def entry(self) -> str:
        """The path on the console that leads here."""
        return f"/ports/{quote(self.pool, safe='')}/{quote(self.job, safe='')}/{self.task}/{self.port}"


@dataclass(frozen=True, slots=True)
class JobHosts:
    """url: the address below which each port has a host name, such as `https://jobs.example.org`."""

    url: str

    @property
    def is_https(self) -> bool:
        """Whether browsers reach it by HTTPS."""
        return self.url.startswith("https:")

    def origin(self, label: str) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{label}.{parts.netloc.lower()}"

    def label_of(self, host: str) -> str | None:
        """The label in a Host header; None for the name of another service."""
        label, dot, rest = host.lower().partition(".")
        return label if dot and rest == urlsplit(self.url).netloc.lower() else None


def target_of(data: list[Any]) -> Target:
    """The target in a token."""
    pool, job, seq, task, port = data
    return Target(pool, job, seq, task, port)
