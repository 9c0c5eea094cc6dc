"""Commands about keys: those that sign requests, the root key, certificates, revocation."""

import time
from pathlib import Path
from typing import Annotated

import typer

from bailiff.client.answers import require_accepted
from bailiff.client.errors import UsageError

from . import requests  # noqa: F401 - `key revoke`
from .session import OFFLINE, Session, command

DAY = 86_400_000_000

KeyFile = Annotated[Path, typer.Argument(help="File to write; must not exist.")]
RootFile = Annotated[Path, typer.Option("--root", metavar="FILE", help="The root key's private file.")]


@command("key new", leave_out=OFFLINE)
async def key_new(session: Session, file: KeyFile) -> None:
    """Create a private key; its public half is the `keyid` used in the policy."""
    _show_key(session, _new_key(file))


@command("key show", leave_out=OFFLINE)
async def key_show(session: Session, file: Annotated[Path, typer.Argument(help="A private key file.")]) -> None:
    """Print the public half of a key."""
    from bailiff.client.settings import read_key

    _show_key(session, read_key(file))


@command("key root", leave_out=OFFLINE)
async def key_root(session: Session, file: KeyFile) -> None:
    """Create the root key, which certifies services and nodes. Keep the file offline; a copy is worth a safe."""
    from bailiff_log.keys import key_id

    public = key_id(_new_key(file))
    session.show(
        {"root_key": public}, lambda: f"root key {public}\nnext: bailiff key certify FOLDER --root {file} --role admission"
    )


@command("key certify", leave_out=OFFLINE)
async def key_certify(
    session: Session,
    folder: Annotated[Path, typer.Argument(help="Folder of the credentials (BAILIFF_CREDENTIALS); its keys are kept.")],
    root: RootFile,
    role: Annotated[str, typer.Option(help="admission, victim-selection, eviction-executor, node, auditor, rollup, console …")],
    name: Annotated[str, typer.Option(help="Of the replica; for the role node the node's name.")],
    pool: Annotated[str, typer.Option(help="The pool that it is for. Default: every pool of this root key.")] = "*",
    days: Annotated[int, typer.Option(min=1, max=3650, help="How long the certificate is valid.")] = 365,
) -> None:
    """Issue a certificate: make keys in this folder where there are none, and sign them with the root key."""
    from pydantic import ValidationError

    from bailiff.client.settings import read_key
    from bailiff_log.credentials import make_credentials
    from bailiff_log.keys import KeyFileError

    now = time.time_ns() // 1000
    try:
        made = make_credentials(
            folder,
            read_key(root),
            role=role,  # type: ignore[arg-type]
            name=name,
            pool=pool,
            not_before=now - DAY,
            expires=now + days * DAY,
        ).certificate
    except ValidationError as error:
        from bailiff_bus.validation_errors import describe_errors

        raise UsageError(describe_errors(error.errors(include_url=False))) from None
    except (KeyFileError, OSError) as error:
        raise UsageError(str(error)) from None
    session.show(made.to_data(), lambda: f"{folder}: certificate of {made.role} {made.name} for {days} days, key {made.key}")


@command("key rotate-root")
async def key_rotate_root(
    session: Session,
    root: RootFile,
    new: Annotated[Path, typer.Option("--new", metavar="FILE", help="The next root key's private file.")],
) -> None:
    """Replace a pool's root key. Certify all services with the new one before, and restart them afterwards."""
    from bailiff.client.settings import read_key
    from bailiff_core.records.pool_requests import ChangeRootKey
    from bailiff_log.root_keys import change_root_key

    before, after = read_key(root), read_key(new)
    async with session.client() as client:
        pool = await client.pool(session.pool)
        state = (await client.projection(pool.name)).state
        body = ChangeRootKey(change=change_root_key(before, state.identity, after))
        outcome = await require_accepted(client, await client.request(pool.name, body))
        result = {"pool": pool.name, "seq": outcome.seq, "root_key": body.change.key}
        session.show(result, lambda: f"root key {body.change.key}  ({pool.name}#{outcome.seq}); restart the services")


def _new_key(file: Path) -> bytes:
    from bailiff.client.settings import key_text
    from bailiff_log.file_writing import write
    from bailiff_log.keys import new_private_key

    private = new_private_key()
    try:
        write(file, key_text(private), mode=0o600, only_new=True)
    except FileExistsError:
        raise UsageError(f"{file} exists already", "keys are never overwritten: choose another file") from None
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}") from None
    return private


def _show_key(session: Session, private: bytes) -> None:
    from bailiff_log.keys import key_id

    session.show({"keyid": key_id(private)}, lambda: f"keyid {key_id(private)}\nadd it to the policy under identity.keys")
