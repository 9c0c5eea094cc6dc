"""Nothing is named in a log that nobody altered: not in the whole, not in a part, and not in a receipt cut out of it.

Logs of every kind: recorded ones, those of services, of a writer that another one continues, of a follower that begins with a
snapshot. The simulation (`tests/simulation`) and the fuzzer hold all of their logs to the same rule, with faults and liars.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.kits.history_files import from_lines
from tests.kits.honest_logs import told
from tests.kits.log_builder import Story
from tests.kits.log_faults import named_by_replay, named_by_verify, named_from, replay_starts, snapshots
from tests.kits.receipts import POOL, STORIES, SealedStory, SignedStory, preempted, sealed, usual
from tests.property.rich_stories import Rich

from bailiff.audit.receipt.check import check_receipt
from bailiff.audit.receipt.collect import collect
from bailiff_admission import input_positions
from bailiff_core.records import ChainHead, Record, Wire, decode, facts
from bailiff_core.records.decisions import PreemptionDecided
from bailiff_log.writer import chain_records

HISTORIES = sorted((Path(__file__).parents[1] / "histories").glob("*.jsonl"))
REQUESTS = "bailiff.requests"
SEEDS, CYCLES, SNAPSHOTS = range(4), 40, 12


def of_history(path: Path) -> list[Wire]:
    return from_lines(path.read_text(encoding="utf-8"))


def of_services() -> list[Wire]:
    return told()[0]


def with_all_positions_in_each_record() -> list[Wire]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(input_positions, "FULL_POSITIONS_EVERY", 1)
        return told()[0]


def of_requests_from_before_their_topic_was_made_anew() -> list[Wire]:
    """A writer had read requests ahead when the topic was made anew: it answers them, and their places are given again."""
    wires, credentials = told()
    records = records_of(wires)
    second = [record.seq for record in records if isinstance(record.data, facts.WriterStarted)][1]
    without_effect = next(record for record in records if isinstance(record.data, facts.NodeWaiting))
    lost = facts.InputsLost(topic=REQUESTS, partition=0, from_offset=99, to_offset=0)
    made = dict(without_effect.inputs) | {f"{REQUESTS}/0": 0}
    at = without_effect.seq
    anew = replace(without_effect, type=lost.type_name(), data=lost, cause="", inputs=tuple(made.items()))
    rest = [
        replace(each, inputs=tuple(pair for pair in each.inputs if not pair[0].startswith(REQUESTS)))
        for each in records[at + 1 : second]
    ]
    assert any(record.cause.startswith(REQUESTS) for record in rest)
    return [wire for _, wire, _ in chain_records(ChainHead(POOL), [*records[:at], anew, *rest], credentials)]


def of_story(tell: Callable[[Path], SealedStory]) -> list[Wire]:
    with TemporaryDirectory() as folder:
        return tell(Path(folder)).story.wires


def of_seed(seed: int) -> list[Wire]:
    """Facts of every kind in any order; the requests in it ask for things that admission would reject."""
    rich = Rich(Random(seed), lambda _: None)
    rich.play(CYCLES)
    return rich.story.wires


LOGS: dict[str, Callable[[], list[Wire]]] = {
    **{path.stem: (lambda path=path: of_history(path)) for path in HISTORIES},
    **{tell.__name__.strip("_"): (lambda tell=tell: of_story(tell)) for tell in STORIES},
    "usual": lambda: usual().story.wires,
    "of services": of_services,
    "of services, with all positions": with_all_positions_in_each_record,
    "of requests from before": of_requests_from_before_their_topic_was_made_anew,
}
REPLAYED = {**LOGS, **{f"of seed {seed}": (lambda seed=seed: of_seed(seed)) for seed in SEEDS}}


@cache
def log_named(name: str) -> list[Wire]:
    return REPLAYED[name]()


def records_of(wires: Sequence[Wire]) -> list[Record]:
    return [decode(wire) for wire in wires]


@pytest.mark.parametrize("name", LOGS)
def test_verify_names_nothing_in_an_honest_log(name: str) -> None:
    assert named_by_verify(records_of(log_named(name))) == []


@pytest.mark.parametrize("name", REPLAYED)
def test_replay_names_nothing_in_an_honest_log(name: str) -> None:
    wires = log_named(name)
    assert named_by_replay(wires) == []
    starts = replay_starts(records_of(wires))
    for begin in starts[:: max(1, len(starts) // 3)]:
        assert (begin, named_by_replay(wires, begin)) == (begin, [])


@pytest.mark.parametrize("name", LOGS)
def test_a_follower_that_begins_later_names_nothing(name: str) -> None:
    """With a snapshot, as the auditor does; and with the keys alone, as for a part of a log."""
    wires = log_named(name)
    records = records_of(wires)
    for at, state in snapshots(records, SNAPSHOTS):
        assert (at, named_by_verify(records[at:], state)) == (at, [])
        assert (at, named_from(wires, at)) == (at, [])


def continued(folder: Path) -> Iterator[tuple[int, list[Wire]]]:
    """A log that another writer continues after each of its records, also in the middle of a cycle."""
    story = SignedStory(folder)
    preempted(story, finished=False)
    for end in range(3, len(story.wires)):
        other = cast(SignedStory, story.resumed(end))
        other.restart()
        other.submit("late", gpus=1)
        yield end, other.wires


def test_a_log_that_another_writer_continues_is_honest(tmp_path: Path) -> None:
    for end, wires in continued(tmp_path):
        assert (end, named_by_verify(records_of(wires)), named_by_replay(wires)) == (end, [], [])


@pytest.mark.parametrize("name", [*(name for name in LOGS if name not in {path.stem for path in HISTORIES})])
def test_each_receipt_of_an_honest_log_is_consistent(name: str) -> None:
    wires = log_named(name)
    log = sealed(cast(Story, SimpleNamespace(wires=wires)), witnesses=0)
    decided = [record.seq for record in records_of(wires) if isinstance(record.data, PreemptionDecided)]
    for decision in decided:
        found = check_receipt(asyncio.run(text_of(log, decision)))
        assert (found["verdict"], [each for each in found["checks"] if each["status"] == "failed"]) == ("consistent", [])
    assert decided


async def text_of(log: SealedStory, decision: int) -> str:
    receipt: Any = (await collect(log.source, "", decision)).receipt
    return str(receipt.to_text())
