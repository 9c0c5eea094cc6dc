"""The keys of a simulated pool with a root key: the same in every run, so that a seed determines its run."""

import hashlib
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bailiff_core.model.certificate import Role
from bailiff_log.credentials import ENCRYPTION_KEY, PRIVATE_KEY, Credentials, make_credentials
from bailiff_log.keys import key_id, to_text

from .work import START

DAY = 86_400_000_000
NODES = tuple(f"node-{number}" for number in range(4))
SERVICES: dict[str, Role] = {"admission": "admission", "selection": "victim-selection", "executor": "eviction-executor"}


def private_key(name: str) -> bytes:
    """The private key of this name."""
    return hashlib.sha256(f"simulation/{name}".encode()).digest()


@dataclass(frozen=True)
class PoolKeys:
    """folder: of the credentials, one folder for each service, and `nodes` with one for each node."""

    folder: Path
    root: bytes

    @property
    def root_key(self) -> str:
        """The public root key."""
        return key_id(self.root)

    @cache  # noqa: B019 - there is one instance for all runs
    def issue(self, folder: str, role: Role, name: str = "", root: bytes = b"") -> Credentials:
        """Credentials in this folder. root: another root key than the pool's."""
        at = self.folder / folder
        at.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file in (PRIVATE_KEY, ENCRYPTION_KEY):
            path = at / file
            path.touch(mode=0o600)
            path.write_text(to_text(private_key(f"{folder}/{file}")), encoding="ascii")
        times = {"not_before": START - DAY, "expires": START + 365 * DAY}
        return make_credentials(at, root or self.root, role=role, name=name or folder, **times)


@cache
def pool_keys() -> PoolKeys:
    """The keys of every run in this process; its folder is deleted when the process ends."""
    keys = PoolKeys(Path(_folder().name), private_key("root"))
    for folder, role in SERVICES.items():
        keys.issue(folder, role)
    for node in NODES:
        keys.issue(f"nodes/{node}", "node", node)
    return keys


@cache
def _folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="bailiff-sim-keys-")
