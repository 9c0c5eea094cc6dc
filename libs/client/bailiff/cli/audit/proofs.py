"""`bailiff audit seals`, `prove` and `check-proof`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from bailiff.cli.log_source import FromArchive, FromFile, Trust, source_of
from bailiff.cli.session import LOCAL, Session, command
from bailiff.client.errors import ExitCode, NotFound
from bailiff_core.humanize import count_text


@command("audit seals")
async def seals(session: Session, file: FromFile = None, archive: FromArchive = None, trust: Trust = None) -> ExitCode:
    """List the seals and verify their signatures, key handovers and order."""
    from bailiff.audit.verify import chain_of
    from bailiff.tables.audit import seals_block
    from bailiff_core.records.wire import time_text

    async with source_of(session, file, archive) as source:
        chain, problem = chain_of(source, trust or ())
    found = {
        "pool": source.pool,
        "ok": not problem,
        "problem": problem,
        "keys": chain.keys,
        "seals": [
            {"size": each.size, "root": each.root, "sealed_at": time_text(each.sealed_at), "key": each.key}
            for each in chain.seals
        ],
    }
    session.show(found, lambda: seals_block(found))
    return ExitCode.FOUND_WRONG if problem else ExitCode.DONE


@command("audit prove", leave_out=("output",))
async def prove(
    session: Session,
    seq: Annotated[int, typer.Argument(min=0, help="The number of the record.")],
    to: Annotated[Path | None, typer.Option("--to", metavar="FILE", help="File to write. Default: standard output.")] = None,
    file: FromFile = None,
    archive: FromArchive = None,
) -> None:
    """Write a proof that a record is in the sealed log. It can be checked without Kafka and without the log."""
    from bailiff.audit import proofs
    from bailiff.audit.verify import chain_of
    from bailiff.client.safe_write import write
    from bailiff_core.records.wire import time_text

    async with source_of(session, file, archive) as source:
        chain, _ = chain_of(source)
        seal = next((each for each in chain.seals if each.size > seq), None)
        if seal is None:
            last = (
                f"the last seal, at {time_text(chain.last.sealed_at)[11:19]} UTC, is over {count_text(chain.last.size, 'record')}"
                if chain.last
                else "no seal exists yet"
            )
            advice = (
                "the auditor seals new records within five minutes, unless BAILIFF_SEAL_SECONDS says otherwise: try again then"
            )
            raise NotFound(f"{source.pool}#{seq} is not sealed: {last}", advice)
        keys = chain.key_messages[: chain.keys.index(seal.key) + 1]
        proof = await proofs.prove(source, seq, seal, keys)
    text = json.dumps(proof, indent=1) + "\n"
    if to is None:
        session.out.out(text, highlight=False, end="")
        return
    write(to, text)
    session.say(f"{to}: {source.pool}#{seq} under the seal over {count_text(seal.size, 'record')}, by key {seal.key}")


@command("audit check-proof", leave_out=LOCAL)
async def check_proof(
    session: Session,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A proof written by `bailiff audit prove` or `bailiff audit parquet`.")
    ],
    trust: Annotated[
        list[str] | None,
        typer.Option(
            "--trust", metavar="KEY", help="The log's first sealing key, or the seal's, obtained out of band; repeatable."
        ),
    ] = None,
) -> ExitCode:
    """Check a proof: the record is in the sealed log, byte for byte. A segment's proof is checked with its Parquet files.

    Without --trust the key named by the proof is trusted: compare it with the known key.
    """
    from bailiff.audit import proofs
    from bailiff.audit.object_path import path_of
    from bailiff.audit.segment_proofs import check_segment, is_segment_proof
    from bailiff.tables.audit import proof_block

    path = path_of(file)
    found = (check_segment if is_segment_proof(path) else proofs.checked)(path, trust or [])
    session.show(found, lambda: proof_block(found))
    return ExitCode.DONE if found["ok"] else ExitCode.FOUND_WRONG
