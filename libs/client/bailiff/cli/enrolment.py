"""Commands that let a machine enrol as a node: node enrol, node approve."""

import time
from typing import Annotated

import typer

from bailiff.client.answers import require_accepted
from bailiff.client.errors import ClientError, ExitCode

from .jobs import micros_of
from .parameters import NodeName
from .session import Session, command

MaxDevices = Annotated[
    int | None,
    typer.Option(
        "--max-devices",
        min=0,
        metavar="N",
        help="The most GPUs, or MIG devices, that the node may say it has. Default: as before.",
    ),
]
Valid = Annotated[str, typer.Option("--valid", metavar="TIME", help="How long it may be used, as in 30m or 24h.")]


@command("node enrol")
async def enrol(session: Session, node: NodeName, valid: Valid = "24h", max_devices: MaxDevices = None) -> None:
    """Print a token with which one machine may enrol under this name, once. Give it to the agent: BAILIFF_ENROLMENT_TOKEN."""
    from bailiff_core.records.pool_requests import EnrolNode
    from bailiff_log.enrolment import EnrolmentToken
    from bailiff_log.keys import key_id, new_private_key

    expires = time.time_ns() // 1000 + micros_of("--valid", valid)
    async with session.client() as client:
        pool = await client.pool(session.pool)
        root_key = (await client.projection(pool.name)).state.root_key
        if not root_key:
            raise ClientError(ExitCode.REJECTED, f"{pool.name} has no root key: its nodes join without being enrolled")
        token = EnrolmentToken(new_private_key(), root_key)
        body = EnrolNode(node=node, token_key=key_id(token.private_key), expires=expires, max_devices=max_devices)
        outcome = await require_accepted(client, await client.request(pool.name, body))
        result = {"pool": pool.name, "seq": outcome.seq, "node": node, "token": token.text()}
        session.show(result, token.text)


@command("node approve")
async def approve(
    session: Session,
    node: NodeName,
    public_key: Annotated[str, typer.Argument(metavar="KEY", help="The agent's key, as in `bailiff nodes` and in its own log.")],
    valid: Valid = "24h",
    max_devices: MaxDevices = None,
) -> None:
    """Let the agent with this key enrol under this name; also in place of the key that the name has now."""
    from bailiff_core.records.pool_requests import EnrolNode

    expires = time.time_ns() // 1000 + micros_of("--valid", valid)
    async with session.client() as client:
        pool = await client.pool(session.pool)
        body = EnrolNode(node=node, key=public_key, expires=expires, max_devices=max_devices)
        outcome = await require_accepted(client, await client.request(pool.name, body))
        result = {"pool": pool.name, "seq": outcome.seq, "node": node, "key": public_key}
        session.show(result, lambda: f"{node} may enrol with this key  ({pool.name}#{outcome.seq}); its agent tries every 30 s")
