"""`bailiff witness`: the process that cosigns the seals."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .parameters import PoolsFile
from .session import Session, command


@command("witness", leave_out=("pool", "output", "actor", "key"))
def witness(
    session: Session,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its name in cosignatures. Also: BAILIFF_WITNESS_NAME.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of its key and memory. Also: BAILIFF_STATE_DIR.")
    ] = None,
    pools: PoolsFile = None,
    no_kafka: Annotated[bool, typer.Option("--no-kafka", help="Cosign only what is brought over HTTP.")] = False,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of its HTTP interface. Also: BAILIFF_WITNESS_PORT.")
    ] = None,
    log: Annotated[
        list[str] | None,
        typer.Option("--log", metavar="VKEY", help="Key of a log accepted over HTTP; repeatable. Also: BAILIFF_WITNESS_LOGS."),
    ] = None,
    submit_to: Annotated[
        list[str] | None,
        typer.Option(
            "--submit-to",
            metavar="'VKEY URL'",
            help="Another witness that is brought every checkpoint; repeatable. Also: BAILIFF_WITNESS_SUBMIT_TO.",
        ),
    ] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option("--trust", metavar="KEY", help="First sealing key of a log; repeatable. Also: BAILIFF_WITNESS_TRUST."),
    ] = None,
    show_key: Annotated[bool, typer.Option("--show-key", help="Print its public key and exit.")] = False,
) -> None:
    """Cosign the seals: remember each log's newest checkpoint, and sign only what continues it.

    Run it on a machine, with a key and a disk, that whoever runs the log cannot change. See docs/how-to/witness.md.
    """
    from bailiff.witness.service import build, own_key
    from bailiff.witness.settings import WitnessSettings
    from bailiff_service.main import main
    from bailiff_service.settings import load_settings

    given: dict[str, Any] = {
        "witness_name": name,
        "state_dir": state,
        "pools": pools,
        "witness_port": port,
        "witness_kafka": False if no_kafka else None,
        "witness_logs": tuple(log or ()) or None,
        "witness_submit_to": tuple(submit_to or ()) or None,
        "witness_trust": tuple(trust or ()) or None,
    }
    values = {"kafka": session.settings.kafka} | {each: value for each, value in given.items() if value is not None}
    if show_key:
        session.write(f"{own_key(load_settings(WitnessSettings, **values))[0]}\n")
        return
    sys.exit(main(WitnessSettings, build, **values))
