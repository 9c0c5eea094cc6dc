"""Identity of the machine, its boot, and the agent's run (docs/reference/log-protocol-fences.md#nodes)."""

import secrets
from dataclasses import dataclass
from pathlib import Path

from .journal import Journal
from .storage import DamagedFile, Storage


@dataclass(frozen=True)
class Incarnation:
    machine_id: str
    boot_id: str
    incarnation: str


def new_incarnation(
    storage: Storage, *, machine_id: str | None = None, boot_id: str | None = None, incarnation: str | None = None
) -> Incarnation:
    """A new one for each start of the agent. The machine id is chosen at the first start and stored.

    Arguments override it, so that a simulation is repeatable. Raises `DamagedFile` for the folder of another machine.
    """
    journal = Journal(storage, "machine")
    stored = next((str(entry["machine_id"]) for entry in journal.entries), None)
    if stored is None:
        stored = machine_id or _id_of_this_host() or secrets.token_hex(16)
        journal.add({"machine_id": stored})
    if machine_id is not None and machine_id != stored:
        raise DamagedFile("machine", f"the folder belongs to machine {stored}, not to {machine_id}")
    return Incarnation(stored, boot_id or current_boot_id(), incarnation or secrets.token_hex(16))


def current_boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _id_of_this_host() -> str | None:
    try:
        return Path("/etc/machine-id").read_text().strip() or None
    except OSError:
        return None
