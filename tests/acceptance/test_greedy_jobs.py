"""Jobs that hold on to their GPUs: by a grace of ten years, by ignoring TERM, by checkpoints that nobody can read.

On real Kafka, services and processes: what the policy grants is shortened, on record, by an operator's hand; who breaks its word
is believed less the next time, and `bailiff explain` says so.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import kits
from tests.kits.claims import EVERY_CLAIM
from tests.kits.system import POLICY, System, Watch

from bailiff_core.model.document import TEN_YEARS
from bailiff_core.model.policy import Claims
from bailiff_core.records.decisions import EvictionDecided, GraceShortened, JobRequeued
from bailiff_core.records.facts import EvictionStageReached, EvictionStarted, TaskStarted
from bailiff_devstack.secure_kafka import SecureKafka

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

POOL, SECOND = "pool-a", 1_000_000
LYING_JOB = Path(kits.__file__).parent / "lying_job.py"
EVICTION = POLICY.eviction.model_copy(update={"grace": 3 * SECOND, "short_grace": SECOND})
GENEROUS = POLICY.model_copy(update={"eviction": EVICTION, "claims": EVERY_CLAIM})


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """As `make up` sets it up: one machine with eight GPUs, keys, and unsigned requests."""
    with System(tmp_path_factory.mktemp("usual"), pools={POOL: 1}, policy=GENEROUS) as made:
        yield made


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """As `make up SECURE=1` does: with TLS, users and access lists as well."""
    folder = tmp_path_factory.mktemp("secure")
    with System(folder, kafka=SecureKafka(folder / "kafka", progress=print), pools={POOL: 1}, policy=GENEROUS) as made:
        yield made


def explained(system: System, job: str) -> str:
    """What `bailiff explain` says of the job, as one line."""
    return " ".join(system.command(POOL, "explain", job).split())


# --- who breaks its word is believed less


async def test_who_uses_up_its_grace_and_saves_nothing_has_half_of_it_the_next_time(usual: System) -> None:
    async with usual.watch(POOL) as watch:
        await watch.submit("ignores", watch.training(before="trap '' TERM;"), grace_s=4)
        for attempt in (1, 2):
            await watch.until_running("ignores")
            await watch.noted("ignores", attempt)
            assert "believed less, 2 times" not in explained(usual, "ignores")
            usual.command(POOL, "evict", "ignores", "--reason", "room")
            await watch.record(JobRequeued, job="ignores", attempt=attempt)
        assert [each.grace for each in watch.facts(EvictionDecided, job="ignores")] == [4 * SECOND, 2 * SECOND]
        assert [each.job for each in watch.facts(EvictionStageReached, stage="kill_sent")] == ["ignores", "ignores"]
        said = explained(usual, "ignores")
        assert "It is believed less, 2 times in a row: it used up its whole grace and saved nothing" in said
        assert "its grace is 1s instead of 4s" in said
        await watch.until_running("ignores")
        await watch.verify()


async def test_whose_checkpoints_cannot_be_read_has_half_of_its_grace_the_next_time(usual: System) -> None:
    async with usual.watch(POOL) as watch:
        await watch.submit("lies", f"exec {sys.executable} {LYING_JOB}", grace_s=40, env={"LYING_MARKS": str(usual.marks)})
        await until_attempt(watch, "lies", 1)
        usual.command(POOL, "evict", "lies", "--reason", "room")
        await watch.record(EvictionStageReached, job="lies", stage="checkpoint_committed")
        await until_attempt(watch, "lies", 2)
        assert (await watch.record(TaskStarted, job="lies", attempt=2)).damaged_checkpoints == 1
        said = explained(usual, "lies")
        assert "It is believed less, 1 time in a row" in said
        assert "its grace is 20s instead of 40s" in said
        usual.command(POOL, "evict", "lies", "--reason", "room")
        await watch.record(EvictionDecided, job="lies", attempt=2, grace=20 * SECOND)
        await watch.verify()


async def until_attempt(watch: Watch, job: str, attempt: int) -> None:
    """Wait until the job has written down this attempt, and the log has its start."""

    async def noted() -> bool:
        return (watch.system.marks / f"{job}.{attempt}").exists()

    await watch.until_true(f"{job} has noted attempt {attempt}", noted)
    await watch.until_running(job)


# --- ten years of grace, and TERM ignored


@pytest.mark.parametrize(
    ("cause", "arguments", "at_most"),
    [
        ("cancelled", ("cancel", "JOB", "--reason", "enough"), 3 * SECOND),
        ("requested", ("evict", "JOB", "--grace", "2s", "--reason", "now"), 2 * SECOND),
        ("drain", ("drain", "NODE", "--fast", "--reason", "broken", "--yes"), SECOND),
    ],
)
async def test_an_operator_ends_a_grace_of_ten_years(
    secure: System, cause: str, arguments: tuple[str, ...], at_most: int
) -> None:
    async with secure.watch(POOL) as watch:
        (node,) = (node.name for node in watch.state.nodes.values())
        await evicted_with_ten_years(watch, cause)
        secure.command(POOL, *({"NODE": node, "JOB": cause}.get(each, each) for each in arguments))
        await ended_by_force(watch, cause, at_most)
        if cause == "drain":
            secure.command(POOL, "undrain", node)


async def test_a_policy_that_grants_less_ends_a_grace_of_ten_years(secure: System) -> None:
    async with secure.watch(POOL) as watch:
        await evicted_with_ten_years(watch, "policy")
        await watch.apply(GENEROUS.model_copy(update={"claims": Claims(grace=2 * SECOND)}))
        await ended_by_force(watch, "policy", 3 * SECOND)
        assert re.search(r"It claims grace \w+, and is granted 3s\.", explained(secure, "policy")), "the default needs no grant"
        await watch.apply(GENEROUS)


async def evicted_with_ten_years(watch: Watch, job: str) -> None:
    """A job that ignores TERM has got its notice, with a grace of ten years."""
    await watch.submit(job, watch.training(before="trap '' TERM;"), gpus=8, grace_s=TEN_YEARS / SECOND)
    await watch.until_running(job)
    watch.system.command(watch.pool, "pause", job, "--reason", "for others")
    assert (await watch.record(EvictionDecided, job=job)).grace == TEN_YEARS
    await watch.record(EvictionStageReached, job=job, stage="noticed")


async def ended_by_force(watch: Watch, job: str, at_most: int) -> None:
    """The eviction's grace was shortened for the cause after which the job is named, KILL came, and the GPUs are free."""
    shortened = await watch.record(GraceShortened, job=job, cause=job)
    assert shortened.earlier == TEN_YEARS
    records = [entry.record for entry in watch.entries if getattr(entry.record.data, "job", "") == job]
    times = {type(record.data): record.time for record in records}
    so_far = 0 if job == "policy" else times[GraceShortened] - times[EvictionStarted]  # a policy counts from the start
    assert shortened.grace == so_far + at_most
    await watch.record(EvictionStageReached, job=job, stage="kill_sent")
    await watch.until("its GPUs are free", lambda state: not any(node.allocated.devices for node in state.nodes.values()))
    await watch.verify()
