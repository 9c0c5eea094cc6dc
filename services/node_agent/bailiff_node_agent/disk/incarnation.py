"""Identity of the machine, its boot, and the agent's run (docs/reference/log-protocol-fences.md#nodes)."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .journal import Journal
from .storage import DamagedFile, Storage

REMEMBERED = 100


@dataclass(frozen=True)
class Incarnation:
    """earlier: the last incarnations of agents that had this state folder, without the present one."""

    machine_id: str
    boot_id: str
    incarnation: str
    earlier: Sequence[str] = ()


def new_incarnation(
    storage: Storage, *, machine_id: str | None = None, boot_id: str | None = None, incarnation: str | None = None
) -> Incarnation:
    """A new one for each start of the agent. The machine id is chosen at the first start and stored.

    Arguments override it, so that a simulation is repeatable. Raises `DamagedFile` for the folder of another machine.
    """
    journal = Journal(storage, "machine")
    stored = next((str(entry["machine_id"]) for entry in journal.entries if "machine_id" in entry), None)
    if stored is None:
        stored = machine_id or _id_of_this_host() or secrets.token_hex(16)
        journal.add({"machine_id": stored})
    if machine_id is not None and machine_id != stored:
        raise DamagedFile("machine", f"the folder belongs to machine {stored}, not to {machine_id}")
    earlier = tuple(entry["incarnation"] for entry in journal.entries if "incarnation" in entry)
    found = Incarnation(stored, boot_id or current_boot_id(), incarnation or secrets.token_hex(16), earlier)
    _remember(journal, found)
    return found


def renewed(storage: Storage, now: Incarnation, incarnation: str, boot_id: str | None = None) -> Incarnation:
    """The next incarnation of a running agent. boot_id: of its node, if that has booted anew."""
    boot_id = boot_id or now.boot_id
    found = replace(now, boot_id=boot_id, incarnation=incarnation, earlier=(*now.earlier, now.incarnation)[-REMEMBERED:])
    _remember(Journal(storage, "machine"), found)
    return found


def _remember(journal: Journal, found: Incarnation) -> None:
    journal.add({"incarnation": found.incarnation})
    if len(journal) > 2 * REMEMBERED:
        kept = (*found.earlier, found.incarnation)[-REMEMBERED:]
        journal.rewrite([{"machine_id": found.machine_id}, *({"incarnation": each} for each in kept)])


def current_boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _id_of_this_host() -> str | None:
    try:
        return Path("/etc/machine-id").read_text().strip() or None
    except OSError:
        return None
