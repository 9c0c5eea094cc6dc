"""What a decision says is lost is what the records of the end say, in whole runs of all services without faults."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from tests.kits.losses import Losses

from bailiff_core.records import Record, Wire, decode
from bailiff_devstack.simulated_node import tasks

from . import work
from .plan import plan_of
from .played import SECOND, Played, submit
from .world import run


def more_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other elastic job takes another size while it runs, and every other job uses the job library; no node saves any."""
    made, spec = work._demand, work._spec

    def demand(random: Random, job: str, *more: Any) -> Any:
        elastic = "live" if int(job.rpartition("-")[2]) % 2 else "restart"
        return made(random, job, *more).model_copy(update={"elastic": elastic})

    def saving(random: Random, number: int = 0) -> Any:
        env = {"BAILIFF_SIM_RUN_FOR": "60", "BAILIFF_SIM_CHECKPOINTS": "10:0.1"}
        found = spec(random, number)
        return found.model_copy(update={"env": env}) if number % 2 else found

    monkeypatch.setattr(work, "_demand", demand)
    monkeypatch.setattr(work, "_spec", saving)
    monkeypatch.setattr(work, "_saved", lambda _, submit: submit)


@pytest.fixture(autouse=True)
def reported_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated tasks state times on the clock of their machines, which have run for 1,000 s already."""
    monkeypatch.setattr(tasks, "_now_us", lambda: int((asyncio.get_running_loop().time() + 1000) * 1_000_000))


def compared(records: Iterable[Record]) -> set[str]:
    """The kinds of losses that were compared, none of which differ."""
    losses = Losses()
    for record in records:
        losses.follow(record)
    assert not losses.wrong
    return set(losses.seen)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "kinds"), [(2, {"stops", "ends for good", "shrinks"}), (5, {"shrinks", "ends for good"})])
def test_what_is_said_to_be_lost_is_what_is_lost(seed: int, kinds: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    more_kinds(monkeypatch)
    outcome = run(replace(plan_of(seed), events=(), bad=0, slow=0, undecidable=()))
    assert outcome.violation is None, outcome.story(last=50)
    assert kinds <= compared(decode(Wire(message.headers, message.value)) for message in outcome.partition)


@pytest.mark.slow
def test_what_a_job_saves_in_its_grace_is_not_lost() -> None:
    saving = {"BAILIFF_SIM_CHECKPOINTS": "10:0.5"}
    played = Played(submit(1.0, "saves", 8, grace=20 * SECOND, env=saving), submit(12.0, "high", 8, cls="inference", run_for=3))
    assert {"stops", "saved"} <= compared(played.records)


@pytest.mark.slow
@pytest.mark.parametrize(("elastic", "kind"), [("restart", "restarts to shrink"), ("live", "shrinks")])
def test_what_a_job_loses_that_shrinks_is_what_it_was_said_to_lose(elastic: str, kind: str) -> None:
    wide = submit(1.0, "wide", 1, "exit:85:0.5", tasks=8, min_tasks=4, elastic=elastic, grace=20 * SECOND)
    played = Played(wide, submit(12.0, "high", 4, cls="inference", run_for=3))
    assert compared(played.records) == {kind}
