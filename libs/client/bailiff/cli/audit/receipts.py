"""`bailiff audit receipt` and `check-receipt`: one file that proves one preemption."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer

from bailiff.cli.log_source import FromArchive, FromFile, source_of
from bailiff.cli.session import LOCAL, Session, command
from bailiff.client.errors import ExitCode, UsageError
from bailiff_core.humanize import count_text, first_names


@command("audit receipt", leave_out=("output",))
async def receipt(
    session: Session,
    about: Annotated[
        str, typer.Argument(metavar="JOB|SEQ", help="The job that was evicted; or a decision's record, for all of its victims.")
    ],
    decision: Annotated[
        int | None, typer.Option(metavar="SEQ", min=0, help="With a job: this preemption. Default: its latest.")
    ] = None,
    eviction: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="With a job: its N-th preemption, in place of --decision.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="The page to write. Default: receipt-POOL-SEQ.html, here.")
    ] = None,
    file: FromFile = None,
    archive: FromArchive = None,
) -> None:
    """Write a receipt of one preemption: who took the GPUs, why, at which price, and the proof that the log says so.

    It is one page of HTML that checks itself in a browser without network. Check it also with: bailiff audit check-receipt FILE
    """
    from bailiff.audit.receipt.collect import collect_from
    from bailiff.audit.receipt.page import page_of
    from bailiff.client import safe_write

    safe_write.check(to)
    number = about.removeprefix("#")
    if number.isascii() and number.isdigit():
        if decision is not None or eviction is not None:
            raise UsageError("--decision and --eviction name a preemption of a job", "give a job, or leave them out")
        about, decision = "", int(number)
    if decision is not None and eviction is not None:
        raise UsageError("--decision and --eviction name the same", "give one of them")
    async with AsyncExitStack() as opened:
        found, evictions = await collect_from(
            lambda: opened.enter_async_context(source_of(session, file, archive)),
            about,
            decision,
            eviction,
            named=session.settings.named_witnesses(),
        )
    path = to or Path(f"receipt-{found.pool}-{found.decision}.html")
    safe_write.put(path, page_of(found.to_text()).encode())
    victims = first_names(found.victims)
    if len(evictions) > 1 and about:
        which = f"{evictions.index(found.decision) + 1} of {len(evictions)}"
        session.say(f"{about} was preempted {len(evictions)} times; this is preemption {which}. Others: --eviction N", "yellow")
    session.say(
        f"{path}: {victims} of decision {found.pool}#{found.decision}, "
        f"{count_text(len(found.records), 'record')} under the seal over {count_text(found.seal.size, 'record')}"
    )


@command("audit check-receipt", leave_out=LOCAL)
def check_receipt(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A receipt written by `bailiff audit receipt`, or its JSON.")],
    root: Annotated[
        list[str] | None,
        typer.Option("--root", metavar="KEY", help="The root key of the log's first record, from elsewhere; repeatable."),
    ] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option("--trust", metavar="KEY", help="The log's first sealing key, or the seal's, from elsewhere; repeatable."),
    ] = None,
    witness: Annotated[
        list[str] | None,
        typer.Option(
            "--witness", metavar="VKEY", help="A witness that must have cosigned the seal: VKEY or VKEY URL; repeatable."
        ),
    ] = None,
) -> ExitCode:
    """Check a receipt from the file alone: what it proves, and what it does not.

    Without --root and --trust the keys named by the file are believed: compare them with those you know. Exit code 1: a check
    failed, or the file is no receipt; 7: it was written by a later release.
    """
    from bailiff.audit.receipt.check import Trust, check_receipt, unreadable
    from bailiff.audit.receipt.model import MAX_BYTES, InvalidReceipt
    from bailiff.audit.receipt.page import is_own_page, text_in
    from bailiff.tables.audit import receipt_block
    from bailiff_log.cosignatures import witness_keys
    from bailiff_log.signed_notes import NoteError

    try:
        trust_in = Trust(tuple(root or ()), tuple(trust or ()), tuple(sorted(witness_keys(witness or ()))))
    except NoteError as error:  # a key that is none would refute every receipt
        raise UsageError(f"--witness: {error}") from None
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from None
    try:
        if len(raw) > MAX_BYTES:
            raise InvalidReceipt(f"more than {MAX_BYTES} bytes")
        content = raw.decode()
        found = check_receipt(text_in(content), trust_in)
        page = "json" if content.startswith("{") else "own" if is_own_page(content) else "other"
    except UnicodeDecodeError:
        found, page = unreadable("not UTF-8"), "other"
    except InvalidReceipt as error:
        found, page = unreadable(str(error)), "other"
    shown = {**found, "page": page}
    session.show(shown, lambda: receipt_block(shown, str(file)))
    if found["verdict"] == "unreadable":
        return ExitCode.UNREADABLE if found["later_format"] else ExitCode.FOUND_WRONG
    return ExitCode.DONE if found["ok"] else ExitCode.FOUND_WRONG
