"""Commands about keys: those that sign requests, the root key, certificates, revocation."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from bailiff.client.answers import require_accepted
from bailiff.client.errors import ClientError, ExitCode

from .jobs import Reason
from .session import Session, command

PANEL = "Operators"
DAY = 86_400_000_000
LOCAL = ("pool", "actor", "key", "kafka", "settings")

KeyFile = Annotated[Path, typer.Argument(help="File to write; must not exist.")]
RootFile = Annotated[Path, typer.Option("--root", metavar="FILE", help="The root key's private file.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    key = typer.Typer(help="Keys: of requests, the root key, certificates, revocation.", no_args_is_help=True)
    command(key, "new", leave_out=LOCAL)(key_new)
    command(key, "show", leave_out=LOCAL)(key_show)
    command(key, "root", leave_out=LOCAL)(key_root)
    command(key, "certify", leave_out=LOCAL)(key_certify)
    command(key, "revoke")(key_revoke)
    command(key, "rotate-root")(key_rotate_root)
    app.add_typer(key, name="key", rich_help_panel=PANEL)


async def key_new(session: Session, file: KeyFile) -> None:
    """Create a private key; its public half is the `keyid` used in the policy."""
    _show_key(session, _new_key(file))


async def key_show(session: Session, file: Annotated[Path, typer.Argument(help="A private key file.")]) -> None:
    """Print the public half of a key."""
    from bailiff.client.settings import read_key

    _show_key(session, read_key(file))


async def key_root(session: Session, file: KeyFile) -> None:
    """Create the root key, which certifies services and nodes. Keep the file offline; a copy is worth a safe."""
    from bailiff_log.keys import key_id

    public = key_id(_new_key(file))
    session.show(
        {"root_key": public}, lambda: f"root key {public}\nnext: bailiff key certify FOLDER --root {file} --role admission"
    )


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
            folder, read_key(root), role=role, name=name, pool=pool, not_before=now - DAY, expires=now + days * DAY  # type: ignore[arg-type]
        ).certificate  # fmt: skip
    except ValidationError as error:
        from bailiff_bus.validation_errors import describe_errors

        raise ClientError(ExitCode.USAGE, describe_errors(error.errors(include_url=False))) from None
    except (KeyFileError, OSError) as error:
        raise ClientError(ExitCode.USAGE, str(error)) from None
    session.show(made.to_data(), lambda: f"{folder}: certificate of {made.role} {made.name} for {days} days, key {made.key}")


async def key_revoke(
    session: Session,
    public_key: Annotated[str, typer.Argument(metavar="KEY", help="The public key.")],
    reason: Reason = "",
) -> None:
    """Revoke a key: nothing that it signs has an effect any more. It cannot be undone."""
    from bailiff_bus.messages import RevokeKey

    async with session.client() as client:
        pool = await client.pool(session.pool)
        outcome = await require_accepted(client, await client.request(pool.name, RevokeKey(key=public_key, reason=reason)))
        session.show({"pool": pool.name, "seq": outcome.seq}, lambda: f"{public_key} is revoked  ({pool.name}#{outcome.seq})")


async def key_rotate_root(
    session: Session,
    root: RootFile,
    new: Annotated[Path, typer.Option("--new", metavar="FILE", help="The next root key's private file.")],
) -> None:
    """Replace a pool's root key. Certify all services with the new one before, and restart them afterwards."""
    from bailiff.client.settings import read_key
    from bailiff_bus.messages import ChangeRootKey
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
    from bailiff_log.keys import new_private_key

    private = new_private_key()
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as opened:
            opened.write(key_text(private))
    except FileExistsError:
        raise ClientError(ExitCode.USAGE, f"{file} exists already", "keys are never overwritten: choose another file") from None
    except OSError as error:
        raise ClientError(ExitCode.USAGE, f"{file}: cannot be written: {error.strerror}") from None
    return private


def _show_key(session: Session, private: bytes) -> None:
    from bailiff_log.keys import key_id

    session.show({"keyid": key_id(private)}, lambda: f"keyid {key_id(private)}\nadd it to the policy under identity.keys")
