"""A pool's own past under another policy: what `bailiff what-if` and the console do with a log."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bailiff_core.model.policy import Policy
from bailiff_core.records import Record

from .problem import ExitCode, Problem
from .simulating import simulator
from .sources import Source
from .walk import Walk, records

if TYPE_CHECKING:
    from bailiff_sim.what_if import WhatIf

Tell = Callable[[str, int, int], None]
"""Called with `simulated` or `other`, and how much of how much is done."""


async def whole_log(source: Source, name: str, seen: Callable[[int], None] = lambda _: None) -> list[Record]:
    """Every record. seen: called with how many there are so far. Raises `Problem` where the log does not begin with the first."""
    if source.start.next_seq:
        text = f"{name} begins with record {source.start.next_seq}: what-if needs the log from its first record on"
        raise Problem(ExitCode.USAGE, text, "put the earlier stretches into the folder, with a manifest that names them")
    found: list[Record] = []
    async for record in records(Walk(source.domain), source.messages, "see: bailiff audit verify"):
        found.append(record)
        seen(len(found))
    return found


def other_past(
    domain: str, log: list[Record], rules: Policy, begin: str | None, to: str | None, tell: Tell
) -> tuple["WhatIf", dict[str, Any]]:
    """Both simulations, and their comparison as data. begin, to: as `moment` reads them. Raises `Problem`."""
    since, until = (moment(option, text, log) for option, text in (("--from", begin), ("--to", to)))
    if since is not None and until is not None and until <= since:
        raise Problem(ExitCode.USAGE, f"--to {to} is not after --from {begin}")
    try:
        read = simulator("from_log").from_log(log, domain, until)
    except ValueError as error:
        raise Problem(ExitCode.NOT_FOUND, f"{domain}: {error}") from None
    found: WhatIf = simulator("what_if").what_if(read, rules, since, tell)
    return found, simulator("what_if").compared(found)


def moment(option: str, text: str | None, records: list[Record]) -> int | None:
    """µs UTC of a record's seq or of a time, such as `2026-11-21T12:00`. Raises `Problem`."""
    if text is None:
        return None
    if text.isdecimal():
        if len(text) > 18 or int(text) >= len(records):
            raise Problem(ExitCode.NOT_FOUND, f"{option}: there is no record #{text}: the log ends at #{len(records) - 1}")
        return records[int(text)].time
    try:
        found = datetime.fromisoformat(text)
        return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1_000_000)
    except (ValueError, OverflowError):
        raise Problem(ExitCode.USAGE, f"{option}: expected a seq, or a time such as 2026-11-21T12:00, found {text!r}") from None
