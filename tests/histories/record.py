"""Records one history: `python -m tests.histories.record NAME`. Never over one that exists.

A recorded history is what an engine once wrote. It is not recorded anew to make a test pass: where deciding again gives
something else, `LOGIC` has to rise, and the history stays, folded and verified and no longer decided again.
"""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.histories.releases import record as releases
from tests.history_files import to_lines
from tests.log_builder import HOUR, MINUTE, SECOND, Cut, Story, policy

from bailiff_core.engine import LOGIC, RELEASE, STATE_SCHEMA
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.model.demand import TaskGroup
from bailiff_core.records.facts import ClockStepped, JobScaled, StateDigest, TaskExited, TaskReleased

FOLDER = Path(__file__).parent


def goes_on(story: Story, rounds: int) -> None:
    """So many times: victim selection answers if asked, who is told to leave leaves, who may start starts."""
    for _ in range(rounds):
        releases.goes_on(story, SECOND)


def preemption_of_one_node(story: Story) -> None:
    """One node, one job that has to leave for a more urgent one, and comes back."""
    story.node("gpu-01", gpus=8, labels={"zone": "a"})
    story.runs("train", gpus=8, labels={"team": "größe"})
    story.submit("later", gpus=2, after=MINUTE)
    story.submit("study", gpus=4, cls="interactive", after=10 * MINUTE)
    story.propose(after=SECOND)
    story.yields("train", after=SECOND)
    story.started("study", after=2 * SECOND)
    story.turn(StateDigest(schema_version=1, digest=state_digest(story.pool)))
    story.ends("study", 0, after=HOUR)
    story.started("train", after=SECOND)
    story.ends("train", 0, after=HOUR)
    story.started("later")
    story.ends("later", 3, after=MINUTE)


def gang_over_two_nodes_with_a_turn_cut_short(story: Story) -> None:
    """A gang over two nodes; the writer dies in the turn that would end one job and place two others."""
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
        story.turn(TaskExited(**at, exit_code=143), TaskReleased(**at), after=SECOND, cut=3)
    story.restart(after=30 * SECOND)
    for name in ("next", "small"):
        story.started(name)
    story.wait(MINUTE)
    story.ends("next", 0, after=MINUTE)
    story.ends("small", 0)
    story.started("gang")
    with suppress(Cut):
        story.turn(story.submitted("late", gpus=8, cls="interactive"), after=MINUTE, cut=1)
    story.restart()
    story.propose()
    story.yields("gang", 143)


def cancel_and_spare(story: Story) -> None:
    """Victims that are spared: never told, told and confirmed, told too late; and one that another asker takes over."""
    for name in ("gpu-01", "gpu-02"):
        story.node(name, gpus=8)
    story.runs("low-1", gpus=4, tasks=2)
    story.runs("low-2", gpus=4, tasks=2, after=MINUTE)
    for number, told in enumerate((False, True, True)):
        story.submit(f"asks-{number}", gpus=8, cls="interactive", after=MINUTE)
        story.propose(after=SECOND)
        victim = next(iter(story.pool.leaving))
        if told:
            story.begin(victim, after=SECOND)
        story.cancel(f"asks-{number}", after=SECOND)
        if number == 1:
            story.spared(victim)
        if number == 2:
            story.spared(victim, task=0)
            story.not_spared(victim, task=1)
            story.ends(victim, 85, after=SECOND)
    story.started(victim)
    story.submit("mid", gpus=8, tasks=2, cls="interactive", after=MINUTE)
    story.propose()
    story.submit("top", gpus=8, cls="inference", after=SECOND)
    story.propose()
    for name in list(story.pool.leaving):
        story.yields(name, after=SECOND)
    story.started("top")


def node_lost(story: Story) -> None:
    """A node falls silent with half a gang, is lost, and comes back; clocks jump, selections time out, policies change."""
    for name in ("gpu-01", "gpu-02", "gpu-03"):
        story.node(name, gpus=8, cpu=64)
    story.runs("gang", gpus=8, tasks=2, max_failures=2)
    story.runs("other", gpus=8)
    lost = story.pool.nodes[story.job("gang").tasks[0].node].name
    story.silent(lost, after=MINUTE)
    story.submit("urgent", gpus=8, cls="build", after=SECOND)
    story.wait(20 * SECOND)
    story.propose()
    story.lost(lost, after=11 * MINUTE)
    for name in list(story.pool.leaving):
        story.yields(name, 143, after=SECOND)
    story.turn(ClockStepped(by=2 * HOUR), after=2 * HOUR)
    story.restart(after=MINUTE)
    story.node(lost, gpus=8, cpu=64, sick=[2], boot=2)
    story.apply_policy(policy(retention={"ended_jobs": "1h"}, eviction={"grace": "10s"}))
    story.wait(5 * MINUTE)
    for name in list(story.pool.starting):
        story.started(name)
    story.cancel("other", after=MINUTE)
    story.turn(StateDigest(schema_version=1, digest=state_digest(story.pool)), after=2 * HOUR)


PROJECTS = [
    {"name": "lab", "quota": {"gpus": 8}},
    {"name": "night", "parent": "lab", "quota": {"gpus": 4}, "over_quota_weight": 1},
    {"name": "day", "parent": "lab", "quota": {"gpus": 4}, "over_quota_weight": 3, "priority": 1},
    {"name": "serving", "quota": {"gpus": 8}, "limit": {"gpus": 12}},
]


def projects_borrow_and_give_back(story: Story) -> None:
    """Projects borrow what is idle; reclaim takes surplus first, then a gang; both come back; a job is scaled and aged."""
    rules = policy(projects=PROJECTS, protections={"ageing": {"boost": 5, "evictions": 1}, "cooldown": {"job": "10s"}})
    story.apply_policy(rules)
    for name in ("gpu-01", "gpu-02"):
        story.node(name, gpus=8)
    story.runs("elastic", gpus=1, tasks=10, min_tasks=2, project="night")
    story.runs("sweep", gpus=4, project="day", after=MINUTE)
    story.submit("serve", gpus=2, tasks=2, min_tasks=1, cls="inference", project="serving", after=10 * MINUTE)
    goes_on(story, rounds=6)
    story.turn(JobScaled(request=story.request(), job="serve", tasks=4), after=MINUTE)
    goes_on(story, rounds=8)
    story.restart(after=MINUTE)
    story.turn(StateDigest(schema_version=STATE_SCHEMA, digest=state_digest(story.pool)))
    story.cancel("serve", after=HOUR)
    goes_on(story, rounds=1)


def shared_devices_and_moves(story: Story) -> None:
    """Parts of GPUs beside whole ones; small jobs are moved so that a large one fits; a place that is kept, taken."""
    story.apply_policy(policy(preemption={"most_moved": 2}, packing="spread"))
    for name in ("gpu-01", "gpu-02"):
        story.node(name, gpus=4)
    story.runs("half", TaskGroup(count=3, gpu_share_milli=500))
    story.runs("memory", TaskGroup(gpu_share_bytes=20 * 2**30), after=SECOND)
    story.runs("one", gpus=1, after=SECOND)
    story.runs("two", gpus=1, after=SECOND)
    story.submit("large", gpus=3, after=MINUTE)
    goes_on(story, rounds=4)
    story.turn(StateDigest(schema_version=STATE_SCHEMA, digest=state_digest(story.pool)))
    story.ends("half", after=HOUR)


def by_hand(story: Story) -> None:
    """People evict, pause, move and drain; a GPU is not seen free, another one breaks; both come back."""
    for name in ("gpu-01", "gpu-02", "gpu-03"):
        story.node(name, gpus=4)
    story.runs("gang", gpus=2, tasks=2)
    story.runs("wide", gpus=4)
    story.evict("gang", "it writes too much", after=MINUTE)
    goes_on(story, rounds=2)
    story.pause("wide", "its owner sleeps", after=MINUTE)
    goes_on(story, rounds=2)
    story.migrate("gang", reason="a fan is loud", after=MINUTE)
    goes_on(story, rounds=3)
    story.unpause("wide", after=HOUR)
    goes_on(story, rounds=2)
    story.drain("gpu-01", "quick", reason="new memory")
    goes_on(story, rounds=3)
    story.undrain("gpu-01")
    story.quarantined("gpu-02", 1)
    story.breaks("gpu-03", 2)
    goes_on(story, rounds=4)
    story.cleared("gpu-02", 1)
    story.repaired("gpu-03", 2)
    goes_on(story, rounds=2)
    story.turn(StateDigest(schema_version=STATE_SCHEMA, digest=state_digest(story.pool)), after=MINUTE)


TURNS = [
    {"name": "a"},
    {"name": "b", "over_quota_weight": 3},
    {"name": "c", "over_quota_weight": 0, "quota": {"gpus": 1}},
    {"name": "d", "over_quota_weight": 0},
]


def reclaimed_and_not_in_turns(story: Story, *, something_happens: bool = True) -> None:
    """c reclaims from b within its quota, borrows the rest, and b's gang asks again: a is above its share, but dearer."""
    story.apply_policy(policy(projects=TURNS, backfill="greedy"))
    story.node("gpu-01", gpus=6)
    story.runs("b-gang", gpus=4, project="b")
    for name in ("a-1", "a-2"):
        story.runs(name, gpus=1, project="a", cls="interactive")
    story.submit("c-small", gpus=1, project="c", after=MINUTE)
    story.submit("c-large", gpus=3, project="c", cls="interactive")
    goes_on(story, rounds=1)
    if something_happens:
        story.submit("d-idle", gpus=6, project="d", after=SECOND)
    goes_on(story, rounds=6)


HISTORIES: dict[str, Callable[[Story], None]] = {
    "preemption-of-one-node": preemption_of_one_node,
    "gang-over-two-nodes-with-a-turn-cut-short": gang_over_two_nodes_with_a_turn_cut_short,
    "cancel-and-spare": cancel_and_spare,
    "node-lost": node_lost,
    "projects-borrow-and-give-back": projects_borrow_and_give_back,
    "shared-devices-and-moves": shared_devices_and_moves,
    "preemption-of-one-node-3": preemption_of_one_node,
    "projects-borrow-and-give-back-3": projects_borrow_and_give_back,
    "shared-devices-and-moves-3": shared_devices_and_moves,
    "by-hand": by_hand,
    "gang-over-two-nodes-with-a-turn-cut-short-4": gang_over_two_nodes_with_a_turn_cut_short,
    "projects-borrow-and-give-back-4": projects_borrow_and_give_back,
    "by-hand-4": by_hand,
    "gang-over-two-nodes-with-a-turn-cut-short-5": gang_over_two_nodes_with_a_turn_cut_short,
    "projects-borrow-and-give-back-5": projects_borrow_and_give_back,
    "by-hand-5": by_hand,
    "reclaimed-and-not-in-turns-5": reclaimed_and_not_in_turns,
    "gang-over-two-nodes-with-a-turn-cut-short-6": gang_over_two_nodes_with_a_turn_cut_short,
    "projects-borrow-and-give-back-6": projects_borrow_and_give_back,
    "by-hand-6": by_hand,
    "reclaimed-and-not-in-turns-6": reclaimed_and_not_in_turns,
}


def record(name: str, folder: Path = FOLDER) -> Path:
    """Tell the story and write its log. Raises `FileExistsError`."""
    log, expected = folder / f"{name}.jsonl", folder / f"{name}.expected.json"
    for path in (log, expected):
        if path.exists():
            raise FileExistsError(f"{path} exists: a recorded history is never written anew; record under another name")
    story = Story(domain="a100")
    HISTORIES[name](story)
    story.holds()
    facts = {
        "domain": story.domain,
        "records": len(story.wires),
        "head": story.head.hash,
        "state_digest": state_digest(story.pool),
        "state_schema": STATE_SCHEMA,
        "logic": LOGIC,
        "release": RELEASE,
    }
    log.write_text(to_lines(story.wires), encoding="utf-8")
    expected.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return log


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in HISTORIES:
        sys.exit(f"which one? {', '.join(HISTORIES)}")
    print(record(sys.argv[1]))
