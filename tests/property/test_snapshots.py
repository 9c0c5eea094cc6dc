"""A job that its node saves never costs more than the same job that saves itself, and that never more than one that nobody saves.

Whatever has happened to it so far: its own checkpoints, snapshots that were stored or failed, restores that succeeded or failed.
"""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.kits.examples import examples
from tests.kits.log_builder import MINUTE, SECOND, Story, digest

from bailiff_core.model.work_lost import lost_gpu_ms
from bailiff_core.records import facts

SAVES = ("checkpoints", "stored", "save_failed", "killed")
STEPS = ("waits", *SAVES, "crashes", "restored", "restore failed", "driver gone", "driver")
MANIFEST = digest("manifest")


def join(story: Story, boot: int, why_not: str = "") -> None:
    offer = facts.SnapshotOffer(driver="criu", why_not=why_not, cpu=digest("cpu"))
    story.cycle(story.joined("n1", gpus=2, boot=boot).model_copy(update={"snapshots": (offer,)}))


def evicted(story: Story, end: str) -> None:
    story.evict("job")
    story.begin("job")
    story.staged("job", "noticed")
    at = {**story.at("job", 0), "driver": "criu"}
    if end in ("stored", "save_failed"):
        story.cycle(facts.EvictionStageReached(**at, stage="frozen"))
        story.time += story.state.seq % 5 * MINUTE  # how long it takes to save it
        said = {"bytes": 1, "sha256": MANIFEST} if end == "stored" else {"reason": "a socket"}
        story.cycle(facts.EvictionStageReached.model_validate({**at, "stage": end, **said}))
    story.ends("job", -9)


def step(story: Story, number: int, what: str) -> None:
    story.cycle(facts.ClockAdvanced(), after=(number % 7) * MINUTE + SECOND)
    at = story.at("job", 0)
    if what == "checkpoints":
        saved = facts.Checkpoint(step=number, bytes=1, duration=1, sha256=digest("own"))
        story.cycle(facts.TaskProgressed(**at, step=number, checkpoint=saved))
    elif what in SAVES:
        evicted(story, what)
    elif what == "crashes":
        story.ends("job", -11)
        story.wait(2 * MINUTE)
    elif what.startswith("driver"):
        join(story, number + 2, "no privilege" if what == "driver gone" else "")
    kept, task = story.job("job").snapshot, story.job("job").tasks[0]
    if what.startswith("restore") and kept is not None and task.restores and not task.restored:
        about = {"from_attempt": kept.attempt, "driver": "criu", **story.at("job", 0)}
        failed = facts.TaskRestoreFailed(**about, reason="a taken port", lost_gpu_ms=kept.work_gpu_ms)
        story.cycle(failed if what == "restore failed" else facts.TaskRestored(**about, bytes=1, restored=number % 3 * MINUTE))
    if story.job("job").phase == "starting":
        story.started("job")


def price(story: Story, mode: str) -> int:
    job = story.job("job")
    return lost_gpu_ms(story.state, replace(job, demand=job.demand.model_copy(update={"checkpoint": mode})), 2000)


@examples(30)
@given(st.lists(st.sampled_from(STEPS), max_size=8), st.sampled_from(["job", "snapshot", "auto", "none"]))
def test_the_price_falls_with_what_is_saved(steps: list[str], mode: str) -> None:
    story = Story()
    join(story, 1)
    story.runs("job", gpus=2, checkpoint=mode, max_failures=1000)
    for number, what in enumerate(steps):
        step(story, number, what)
        assert story.job("job").phase == "running", (what, story.last_decisions)
        assert price(story, "snapshot") == price(story, "auto") <= price(story, "job") <= price(story, "none")
    story.holds()
