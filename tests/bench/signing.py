"""What the signatures of the log cost: for the writer beside deciding, for a follower beside folding, for the auditor.

Times are of the processor, so that what else runs on the machine does not count.
"""

import gc
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from bailiff_core.fold import apply
from bailiff_core.model.state import PoolState
from bailiff_core.records import Break, ChainHead, Record, SignatureCheck, Wire, decode, follow
from bailiff_core.records.facts import PoolCreated, WriterStarted
from bailiff_log.credentials import Credentials, make_credentials
from bailiff_log.keys import new_private_key
from bailiff_log.log_signatures import DeferredSignatureCheck, LogSignatureCheck
from bailiff_log.writer import chain_records

from .fold import READ_AT_ONCE, _replay
from .synthetic import POOL, long_log
from .table import Row, Run


def measure(run: Run) -> list[Row]:
    """In memory, without Kafka."""
    run.say("making a log, and a signed copy of it")
    wires = long_log(5_000 if run.quick else 20_000)
    with tempfile.TemporaryDirectory() as folder:
        owner = make_credentials(Path(folder), new_private_key(), role="admission", name="bench", not_before=0, expires=2**52)
    groups = _groups(wires, owner)
    signed = _written(groups, owner)
    cycles = len(groups)
    deciding = _seconds(lambda: _replay(wires))
    writing, signing, folding, following, strictly = _interleaved(
        2 if run.quick else 15,
        lambda: _written(groups, None, strip=True),
        lambda: _written(groups, owner),
        lambda: _follow(wires, lambda: None),
        lambda: _follow(signed, lambda: DeferredSignatureCheck(POOL)),
        lambda: _follow(signed, lambda: LogSignatureCheck(POOL)),
    )
    return [
        Row(
            f"signing the log, part of deciding ({cycles:,} cycles)",
            100 * (signing - writing) / deciding,
            "%",
            target="≤ 5 %",
            detail={"seconds": signing, "seconds_unsigned": writing, "seconds_deciding": deciding},
        ),
        Row(
            f"following a signed log, beyond an unsigned one, {READ_AT_ONCE} records a read",
            100 * (following / folding - 1),
            "%",
            target="≤ 10 %",
            detail={"seconds": following, "seconds_unsigned": folding},
        ),
        Row(
            "following a signed log, each signature checked, beyond an unsigned one",
            100 * (strictly / folding - 1),
            "%",
            detail={"seconds": strictly, "seconds_unsigned": folding},
        ),
    ]


def _interleaved(rounds: int, *works) -> list[float]:
    """The least time of each, all of them in each round, so that what slows the machine meets all alike."""
    times = [[_seconds(work) for work in works] for _ in range(rounds)]
    return [min(each) for each in zip(*times, strict=True)]


def _seconds(work) -> float:
    """The collector of cycles runs between, not within: what it costs depends on all that the process holds."""
    gc.collect()
    gc.disable()
    began = time.process_time()
    work()
    spent = time.process_time() - began
    gc.enable()
    return spent


def _groups(wires: list[Wire], owner: Credentials) -> list[list[Record]]:
    """The records that were appended together, with certificates."""
    groups: list[list[Record]] = [[]]
    for wire in wires:
        record = decode(wire)
        if isinstance(record.data, PoolCreated):
            keys = {"root_key": owner.root_key, "certificate": owner.certificate}
            record = replace(record, data=record.data.model_copy(update=keys))
        if isinstance(record.data, WriterStarted):
            record = replace(record, data=record.data.model_copy(update={"certificate": owner.certificate}))
            groups.append([])
        groups[-1].append(record)
        if record.cycle_end or isinstance(record.data, WriterStarted):
            groups.append([])
    return [group for group in groups if group]


def _written(groups: list[list[Record]], owner: Credentials | None, strip: bool = False) -> list[Wire]:
    """The bytes of these records. strip: without certificates, as in an unsigned log."""
    head, wires = ChainHead(POOL), []
    for group in groups:
        if strip:
            group = [_without_certificate(record) for record in group]
        written = chain_records(head, group, owner)
        wires += [wire for _, wire, _ in written]
        head = written[-1][2]
    return wires


def _without_certificate(record: Record) -> Record:
    if not isinstance(record.data, PoolCreated | WriterStarted):
        return record
    return replace(record, data=record.data.model_copy(update={"root_key": None, "certificate": None}))


def _follow(wires: list[Wire], make_check) -> None:
    """What AuditReader and Projection do with records."""
    state, head = PoolState(), ChainHead(POOL)
    for begin in range(0, len(wires), READ_AT_ONCE):
        check: SignatureCheck | None = make_check()
        for wire in wires[begin : begin + READ_AT_ONCE]:
            found = follow(head, wire, check=check)
            assert not isinstance(found, Break), found
            head, record = found
            apply(state, record)
        if isinstance(check, LogSignatureCheck):
            check.settle()
