"""Which machine this is, which boot of it, and which run of the agent (log protocol §8)."""

import secrets
from dataclasses import dataclass
from pathlib import Path

from bailiff_node_agent.disk.journal import Journal
from bailiff_node_agent.disk.storage import DamagedFile, Storage


@dataclass(frozen=True)
class Incarnation:
    machine_id: str
    boot_id: str
    incarnation: str


def draw_incarnation(
    storage: Storage, *, machine_id: str | None = None, boot_id: str | None = None, incarnation: str | None = None
) -> Incarnation:
    """A new one for each start of the agent. The machine id is settled at the first start and then kept.

    What is named is taken as it is, so that a simulation can repeat itself. A folder that belongs to another machine
    than the one named is refused.
    """
    journal = Journal(storage, "machine")
    kept = next((str(entry["machine_id"]) for entry in journal.entries), None)
    if kept is None:
        kept = machine_id or _id_of_this_host() or secrets.token_hex(16)
        journal.add({"machine_id": kept})
    if machine_id is not None and machine_id != kept:
        raise DamagedFile("machine", f"the folder belongs to machine {kept}, not to {machine_id}")
    return Incarnation(kept, boot_id or current_boot_id(), incarnation or secrets.token_hex(16))


def current_boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _id_of_this_host() -> str | None:
    try:
        return Path("/etc/machine-id").read_text().strip() or None
    except OSError:
        return None
