"""Records the histories that are missing: `python -m tests.histories.record [SUFFIX]`. Never over one that exists.

A recorded history is what an engine once wrote. It is never recorded again to make a test pass: where deciding again gives
something else, `LOGIC` has to rise, and the history stays, folded and verified and no longer decided again. What the new
`LOGIC` decides is recorded beside it, with a suffix such as `-2`.
"""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.kits.history_files import to_lines
from tests.kits.log_builder import HOUR, MINUTE, SECOND, Cut, Story, policy
from tests.kits.older_engine import run_round

from bailiff_core.engine import LOGIC, RELEASE, STATE_SCHEMA
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.model.demand import TaskGroup
from bailiff_core.records.facts import ClockStepped, JobEvictionRequested, JobScaled, StateDigest, TaskExited, TaskReleased

FOLDER = Path(__file__).parent


def run_rounds(story: Story, rounds: int) -> None:
    """Run the services this many times: selections are answered, evicted tasks exit, placed tasks start."""
    for _ in range(rounds):
        run_round(story)


def preemption_of_one_node(story: Story) -> None:
    """One node; a job is preempted by a more urgent one and resumes."""
    story.node("gpu-01", gpus=8, labels={"zone": "a"})
    story.runs("train", gpus=8, labels={"team": "größe"})
    story.submit("later", gpus=2, after=MINUTE)
    story.submit("study", gpus=4, cls="interactive", after=10 * MINUTE)
    story.propose(after=SECOND)
    story.yields("train", after=SECOND)
    story.started("study", after=2 * SECOND)
    story.cycle(StateDigest(schema_version=1, digest=state_digest(story.state)))
    story.ends("study", 0, after=HOUR)
    story.started("train", after=SECOND)
    story.ends("train", 0, after=HOUR)
    story.started("later")
    story.ends("later", 3, after=MINUTE)


def gang_over_two_nodes_with_a_cycle_cut_short(story: Story) -> None:
    """A gang over two nodes; the writer dies in the cycle that would end one job and place two others."""
    for name in ("gpu-01", "gpu-02"):
        story.node(name, gpus=8)
    story.runs("gang", gpus=8, tasks=2, max_failures=1)
    story.submit("next", gpus=8, after=MINUTE)
    story.submit("small", gpus=4)
    story.exits("gang", 1, task=1, after=HOUR)
    story.releases("gang", task=1)
    story.begin("gang")
    story.staged("gang", "term_sent", task=0)
    at = story.at("gang", 0)
    with suppress(Cut):
        story.cycle(TaskExited(**at, exit_code=143), TaskReleased(**at), after=SECOND, cut=3)
    story.restart(after=30 * SECOND)
    for name in ("next", "small"):
        story.started(name)
    story.wait(MINUTE)
    story.ends("next", 0, after=MINUTE)
    story.ends("small", 0)
    story.started("gang")
    with suppress(Cut):
        story.cycle(story.submitted("late", gpus=8, cls="interactive"), after=MINUTE, cut=1)
    story.restart()
    story.propose()
    story.yields("gang", 143)


def cancelled_evictions(story: Story) -> None:
    """Cancelled evictions: before the notice, confirmed, too late; and a victim that another preemptor takes over."""
    for name in ("gpu-01", "gpu-02"):
        story.node(name, gpus=8)
    story.runs("low-1", gpus=4, tasks=2)
    story.runs("low-2", gpus=4, tasks=2, after=MINUTE)
    for number, started in enumerate((False, True, True)):
        story.submit(f"asks-{number}", gpus=8, cls="interactive", after=MINUTE)
        story.propose(after=SECOND)
        victim = next(iter(story.state.evicting))
        if started:
            story.begin(victim, after=SECOND)
        story.cancel(f"asks-{number}", after=SECOND)
        if number == 1:
            story.eviction_cancelled(victim)
        if number == 2:
            story.eviction_cancelled(victim, task=0)
            story.cancel_eviction_refused(victim, task=1)
            story.ends(victim, 85, after=SECOND)
    story.started(victim)
    story.submit("mid", gpus=8, tasks=2, cls="interactive", after=MINUTE)
    story.propose()
    story.submit("top", gpus=8, cls="inference", after=SECOND)
    story.propose()
    for name in list(story.state.evicting):
        story.yields(name, after=SECOND)
    story.started("top")


def node_lost(story: Story) -> None:
    """A node with half a gang is silent, lost, and joins again; clocks jump, selections time out, policies change."""
    for name in ("gpu-01", "gpu-02", "gpu-03"):
        story.node(name, gpus=8, cpu=64)
    story.runs("gang", gpus=8, tasks=2, max_failures=2)
    story.runs("other", gpus=8)
    lost = story.state.nodes[story.job("gang").tasks[0].node].name
    story.silent(lost, after=MINUTE)
    story.submit("urgent", gpus=8, cls="build", after=SECOND)
    story.wait(20 * SECOND)
    story.propose()
    story.lost(lost, after=11 * MINUTE)
    for name in list(story.state.evicting):
        story.yields(name, 143, after=SECOND)
    story.cycle(ClockStepped(jump=2 * HOUR), after=2 * HOUR)
    story.restart(after=MINUTE)
    story.node(lost, gpus=8, cpu=64, sick=[2], boot=2)
    story.apply_policy(policy(retention={"ended_jobs": "1h"}, eviction={"grace": "10s"}))
    story.wait(5 * MINUTE)
    for name in list(story.state.starting):
        story.started(name)
    story.cancel("other", after=MINUTE)
    story.cycle(StateDigest(schema_version=1, digest=state_digest(story.state)), after=2 * HOUR)


PROJECTS = [
    {"name": "lab", "quota": {"gpus": 8}},
    {"name": "night", "parent": "lab", "quota": {"gpus": 4}, "over_quota_weight": 1},
    {"name": "day", "parent": "lab", "quota": {"gpus": 4}, "over_quota_weight": 3, "priority": 1},
    {"name": "serving", "quota": {"gpus": 8}, "limit": {"gpus": 12}},
]


def borrow_and_reclaim(story: Story) -> None:
    """Projects borrow idle GPUs; reclaim takes surplus first, then a gang; both resume; a job is scaled, one is boosted."""
    rules = policy(projects=PROJECTS, protections={"ageing": {"boost": 5, "evictions": 1}, "cooldown": {"job": "10s"}})
    story.apply_policy(rules)
    for name in ("gpu-01", "gpu-02"):
        story.node(name, gpus=8)
    story.runs("elastic", gpus=1, tasks=10, min_tasks=2, project="night")
    story.runs("sweep", gpus=4, project="day", after=MINUTE)
    story.submit("serve", gpus=2, tasks=2, min_tasks=1, cls="inference", project="serving", after=10 * MINUTE)
    run_rounds(story, rounds=6)
    story.cycle(JobScaled(request=story.request(), job="serve", tasks=4), after=MINUTE)
    run_rounds(story, rounds=8)
    story.restart(after=MINUTE)
    story.cycle(StateDigest(schema_version=STATE_SCHEMA, digest=state_digest(story.state)))
    story.cancel("serve", after=HOUR)
    run_rounds(story, rounds=1)


def shared_devices_and_moves(story: Story) -> None:
    """GPU shares beside whole GPUs; small jobs migrate so that a large one fits; a reservation is used."""
    story.apply_policy(policy(preemption={"max_migrations": 2}, packing="spread"))
    for name in ("gpu-01", "gpu-02"):
        story.node(name, gpus=4)
    story.runs("half", TaskGroup(count=3, gpu_share_milli=500))
    story.runs("memory", TaskGroup(gpu_share_bytes=20 * 2**30), after=SECOND)
    story.runs("one", gpus=1, after=SECOND)
    story.runs("two", gpus=1, after=SECOND)
    story.submit("large", gpus=3, after=MINUTE)
    run_rounds(story, rounds=4)
    story.cycle(StateDigest(schema_version=STATE_SCHEMA, digest=state_digest(story.state)))
    story.ends("half", after=HOUR)


def operator_requests(story: Story) -> None:
    """Operators evict, pause, migrate and drain; a GPU is quarantined, another one is unhealthy; both recover."""
    for name in ("gpu-01", "gpu-02", "gpu-03"):
        story.node(name, gpus=4)
    story.runs("gang", gpus=2, tasks=2)
    story.runs("wide", gpus=4)
    story.evict("gang", "it writes too much", after=MINUTE)
    run_rounds(story, rounds=2)
    story.pause("wide", "its owner sleeps", after=MINUTE)
    run_rounds(story, rounds=2)
    story.migrate("gang", reason="a fan is loud", after=MINUTE)
    run_rounds(story, rounds=3)
    story.resume("wide", after=HOUR)
    run_rounds(story, rounds=2)
    story.drain("gpu-01", "quick", reason="new memory")
    run_rounds(story, rounds=3)
    story.undrain("gpu-01")
    story.quarantined("gpu-02", 1)
    story.breaks("gpu-03", 2)
    run_rounds(story, rounds=4)
    story.cleared("gpu-02", 1)
    story.repaired("gpu-03", 2)
    run_rounds(story, rounds=2)
    story.cycle(StateDigest(schema_version=STATE_SCHEMA, digest=state_digest(story.state)), after=MINUTE)


FOUR_PROJECTS = [
    {"name": "a"},
    {"name": "b", "over_quota_weight": 3},
    {"name": "c", "over_quota_weight": 0, "quota": {"gpus": 1}},
    {"name": "d", "over_quota_weight": 0},
]


def no_counter_reclaim(story: Story, *, others_submit: bool = True) -> None:
    """c reclaims from b within its quota, and borrows the rest; b requests GPUs again: a is above its share but costs more."""
    story.apply_policy(policy(projects=FOUR_PROJECTS, backfill="greedy"))
    story.node("gpu-01", gpus=6)
    story.runs("b-gang", gpus=4, project="b")
    for name in ("a-1", "a-2"):
        story.runs(name, gpus=1, project="a", cls="interactive")
    story.submit("c-small", gpus=1, project="c", after=MINUTE)
    story.submit("c-large", gpus=3, project="c", cls="interactive")
    run_rounds(story, rounds=1)
    if others_submit:
        story.submit("d-idle", gpus=6, project="d", after=SECOND)
    run_rounds(story, rounds=6)


def shortened_graces(story: Story) -> None:
    """Jobs that ignore their notice: a request, a cancel and a fast drain shorten what is left, and one is believed less."""
    story.apply_policy(policy(claims={"grace": "30d"}))
    story.node("gpu-01", gpus=8)
    story.node("gpu-02", gpus=8)
    for name in ("asked", "cancelled", "drained"):
        story.runs(name, gpus=4, grace=24 * HOUR)
    for name in ("asked", "cancelled"):
        story.evict(name, after=MINUTE)
        story.begin(name, after=SECOND)
    story.cycle(JobEvictionRequested(request=story.request(), job="asked", grace=5 * SECOND), after=MINUTE)
    story.cancel("cancelled", after=SECOND)
    story.drain(story.state.nodes[story.job("drained").tasks[0].node].name, "fast", reason="it smokes")
    for name in list(story.state.evicting):
        story.yields(name, 137, after=10 * SECOND)
    run_rounds(story, rounds=3)
    story.cycle(StateDigest(schema_version=STATE_SCHEMA, digest=state_digest(story.state)), after=MINUTE)


HISTORIES: dict[str, Callable[[Story], None]] = {
    "preemption-of-one-node": preemption_of_one_node,
    "gang-over-two-nodes-with-a-cycle-cut-short": gang_over_two_nodes_with_a_cycle_cut_short,
    "cancelled-evictions": cancelled_evictions,
    "node-lost": node_lost,
    "borrow-and-reclaim": borrow_and_reclaim,
    "shared-devices-and-moves": shared_devices_and_moves,
    "operator-requests": operator_requests,
    "no-counter-reclaim": no_counter_reclaim,
    "shortened-graces": shortened_graces,
}


def record(name: str, folder: Path = FOLDER, suffix: str = "") -> Path:
    """Tell the story and write its log. Raises `FileExistsError`."""
    log, expected = folder / f"{name}{suffix}.jsonl", folder / f"{name}{suffix}.expected.json"
    for path in (log, expected):
        if path.exists():
            raise FileExistsError(f"{path} exists: a recorded history is never recorded again; use another suffix")
    story = Story(pool="a100")
    HISTORIES[name](story)
    story.holds()
    facts = {
        "pool": story.pool,
        "records": len(story.wires),
        "head": story.head.hash,
        "state_digest": state_digest(story.state),
        "state_schema": STATE_SCHEMA,
        "logic": LOGIC,
        "release": RELEASE,
    }
    log.write_text(to_lines(story.wires), encoding="utf-8")
    expected.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return log


def main(suffix: str = "") -> None:
    """Record every story that has no history with this suffix."""
    for name in HISTORIES:
        if not (FOLDER / f"{name}{suffix}.jsonl").exists():
            print(record(name, suffix=suffix))


if __name__ == "__main__":
    main(*sys.argv[1:])
