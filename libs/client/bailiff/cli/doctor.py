"""`bailiff doctor`: checks of the machine, Kafka, topics, logs and services."""

from pathlib import Path
from typing import Annotated

import typer

from bailiff.client.errors import ExitCode

from .security import Role
from .session import Session, command


@command("doctor", leave_out=("pool", "actor", "key"))
async def doctor(
    session: Session,
    state_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder in which services write their address files.")
    ] = None,
    probe: Annotated[bool, typer.Option("--probe", help="Write one empty message to compare the clocks.")] = False,
    role: Annotated[
        Role | None, typer.Option(help="Compare the connected user's rights in Kafka with this role's. Default: by its name.")
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also check this Kubernetes cluster: admission policies, bridge, Jobs.")
    ] = None,
) -> ExitCode:
    """Check this machine, Kafka, topics, every pool's log and the services; print problems with advice."""
    from bailiff.doctor.checks import examine
    from bailiff.tables.checks import checks_table

    async with session.client() as client:
        found = await examine(client, session.settings, state_dir=state_dir, probe=probe, role=role or "", kubeconfig=kubeconfig)
    session.show(found, lambda: checks_table(found))
    return ExitCode.FOUND_WRONG if any(check["status"] == "wrong" for check in found) else ExitCode.DONE
