"""What a decision says that a job loses is what the records of its end say, for every kind of job.

Histories of small pools whose workload tells the truth: what is evicted leaves at once, without saving. So no time passes between
what a decision expects and what comes, and both figures have to be equal but for the rounding of each record to a millisecond.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random

from tests.kits.log_builder import HOUR, MINUTE, SECOND, Story, policy

from bailiff_core.decision_cycle import wake_at
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.state import Job
from bailiff_core.records import decisions, facts
from bailiff_core.records.payload import Decision, Fact
from bailiff_core.records.tasks import Checkpoint

KINDS = {
    "rigid": {},
    "live": {"min_tasks": 1, "elastic": "live"},
    "restart": {"min_tasks": 1, "elastic": "restart"},
    "ends": {"on_eviction": "end"},
    "ends-or-restarts": {"min_tasks": 2, "elastic": "restart", "on_eviction": "end"},
}
POLICY = policy(preemption={"max_migrations": 2, "max_counted_loss": "2h", "move_higher_priority": True})
CHECKPOINT = Checkpoint(step=1, bytes=1, duration=1, sha256="00" * 32, agreed=True)
Losses = dict[str, list[int]]


class Truthful:
    """A pool, and for each job what decisions said that it loses and what the records of its end say, both in GPU-ms."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.story = Story(POLICY)
        self.said: Losses = {}
        self.recorded: Losses = {}
        self.foreseen: dict[str, int] = {}
        self.seen: Counter[str] = Counter()
        for number in range(3):
            self.story.node(f"n{number}", gpus=4)

    def step(self) -> None:
        """Something happens; then all that it evicts leaves before time passes."""
        story, random = self.story, self.random
        before = [job for job in story.state.jobs.values() if job.phase == "running"]
        what = random.choice(("submit", "submit", "submit", "wait", "wait", "saves", "finishes", "migrate", "ends"))
        if what == "submit":
            kind = random.choice(list(KINDS))
            group = TaskGroup(count=random.randint(1, 4), gpu_milli=random.choice((1000, 1000, 2000)), cpu_milli=0)
            demand = {**KINDS[kind], "min_tasks": min(group.count, KINDS[kind].get("min_tasks", group.count))}
            name = f"{kind}-{len(story.state.jobs)}"
            self.note(story.submit(name, group, cls=random.choice(("train", "train", "interactive")), **demand))
        elif what == "wait":
            self.wait(random.choice((SECOND, 7 * MINUTE, 31 * MINUTE, HOUR)))
        elif before:
            self.of_job(what, random.choice(before))
        self.settle()

    def wait(self, duration: int) -> None:
        """Time passes, with a cycle at each timer of the core."""
        until = self.story.time + duration
        while (wake := wake_at(self.story.state)) is not None and wake <= until:
            self.note(self.story.cycle(facts.ClockAdvanced(), after=max(0, wake - self.story.time)))
            self.settle()
        self.story.time = until

    def of_job(self, what: str, job: Job) -> None:
        """The job saves, one of its tasks or all of it ends with 0, or somebody moves it."""
        story = self.story
        if what == "saves":
            report = (facts.TaskProgressed(**story.at(job.id, task.index), step=1, checkpoint=CHECKPOINT) for task in job.tasks)
            self.note(story.cycle(*report))
        elif what == "migrate":
            self.note(story.migrate(job.id))
        elif what == "ends":
            self.note(story.ends(job.id))
        elif len(running := [task for task in job.tasks if task.state == "running"]) > 1:
            self.note(story.ends(job.id, task=running[0].index))

    def settle(self) -> None:
        """All that starts runs, all that is evicted leaves, requests are answered, until nothing changes. Then the sums agree."""
        story = self.story
        for _ in range(40):
            if story.state.starting:
                name = next(iter(story.state.starting))
                self.note(story.started(name))
            elif story.state.evicting:
                self.leaves(story.job(next(iter(story.state.evicting))))
            elif story.state.selection is not None:
                self.note(story.propose())
            else:
                break
        for name in {**self.said, **self.recorded}:
            said, recorded = self.said.get(name, []), self.recorded.get(name, [])
            assert abs(sum(said) - sum(recorded)) <= len(said) + len(recorded), (name, said, recorded)
        self.said, self.recorded, self.foreseen = {}, {}, {}

    def leaves(self, job: Job) -> None:
        """The tasks that are evicted get their notice, and exit with 85 without another checkpoint."""
        story = self.story
        self.note(story.begin(job.id))
        alive = [task.index for task in job.tasks if task.state in ("starting", "running")]
        going = [n for n in alive if job.eviction is not None or job.task(n).eviction is not None]  # type: ignore[union-attr]
        at = {n: story.at(job.id, n) for n in going}
        self.note(story.cycle(*(facts.EvictionStageReached(**at[n], stage="noticed") for n in going)))
        gone: list[Fact] = [facts.TaskExited(**at[n], exit_code=85) for n in going]
        self.note(story.cycle(*gone, *(facts.TaskReleased(**at[n]) for n in going)))

    def note(self, made: Sequence[Decision]) -> None:
        """Adds up the losses that these decisions name."""
        for each in made:
            if isinstance(each, decisions.PreemptionDecided):
                if each.restart_lost_gpu_ms:
                    self.foreseen[each.preemptor.job] = each.restart_lost_gpu_ms
                for choice in each.victims:
                    if not choice.reserved:
                        self.said.setdefault(choice.job, []).append(choice.lost_gpu_ms)
                        self.note_victim(choice)
            elif isinstance(each, decisions.MigrationDecided):
                grows = each.reason.startswith("it grows")
                foreseen = self.foreseen.pop(each.job, None) if grows else None
                assert foreseen in (None, each.lost_gpu_ms), each
                self.seen["grows by evictions"] += foreseen is not None
                if (
                    grows or each.cause == "migration"
                ):  # what a job loses that restarts to shrink was said when it lost the others
                    self.said.setdefault(each.job, []).append(each.lost_gpu_ms)
                    self.seen["grows" if grows else "migrates"] += 1
            elif isinstance(each, decisions.JobRequeued | decisions.JobShrunk) or getattr(each, "outcome", "") == "evicted":
                self.recorded.setdefault(each.job, []).append(each.lost_gpu_ms)  # type: ignore[attr-defined]

    def note_victim(self, choice) -> None:
        """Counts the cases in which the loss is not simply that of the tasks which are evicted."""
        job = self.story.state.jobs[choice.job]
        self.seen["whole" if not choice.tasks else "part"] += 1
        self.seen["ends for good"] += choice.ends
        self.seen["finished members start again"] += bool(choice.restarts and not choice.tasks)
        self.seen["the others restart"] += bool(choice.restarts and choice.tasks)
        self.seen["saved before"] += bool(job.last_checkpoint and job.last_checkpoint > (job.last_start or 0))
        self.seen["moved"] += bool(choice.moved_to)


def test_what_a_decision_says_is_lost_is_what_the_records_say() -> None:
    seen: Counter[str] = Counter()
    for seed in range(30):
        pool = Truthful(Random(seed))
        for _ in range(40):
            pool.step()
        seen += pool.seen
    wanted = ("whole", "part", "ends for good", "finished members start again", "the others restart", "saved before", "moved")
    assert all(seen[what] > 3 for what in (*wanted, "grows", "grows by evictions", "migrates")), seen
