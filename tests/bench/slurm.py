"""The story of eight GPUs on Bailiff and on a tuned Slurm, in turns on the same machine.

Eight jobs of one GPU fill a node, an urgent job of four GPUs comes, four victims leave at once when they get TERM, the urgent job
runs for a second, the victims come back. All times are noted by the jobs' own shell scripts. Slurm is Debian's, without
accounting, with a scheduler that acts at once (`TunedSlurm`).
"""

import asyncio
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from aiokafka import AIOKafkaProducer
from tests.slurm.kit import GPUS, PATIENCE_S, Slurm, free_ports, listens, unpack

from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.records.job_requests import SubmitJob
from bailiff_devstack.stack import Plan, Stack

from .system import all_joined, publishing
from .table import Row, Run, percentile

POOL = "pool-a"
ASKED = 4
REST_S = 1.0
VICTIM = """
echo "$EPOCHREALTIME" >> {notes}/{name}.start
trap 'echo "$EPOCHREALTIME" >> {notes}/{name}.term; kill $child; exit 143' TERM
sleep 6000 & child=$!
wait $child
"""
URGENT = """
echo "$EPOCHREALTIME" >> {notes}/{name}.start
sleep 1
echo "$EPOCHREALTIME" >> {notes}/{name}.end
"""
Submit = Callable[[str, int, str], None]


class TunedSlurm(Slurm):
    """Without accounting; the scheduler runs at each event, and what is requeued may start again after five seconds."""

    def start(self) -> None:
        """Starts munged, slurmctld and slurmd, and waits until the node is idle."""
        for name in ("munge", "ctld", "slurmd", "dev"):
            (self.at / name).mkdir(parents=True)
        self._munge()
        self._ctld, self._slurmd = free_ports(2)
        self._configure()
        self._spawn("slurmctld", "slurmctld", "-D", "-f", self.at / "slurm.conf")
        self.until("slurmctld listens", lambda: listens(self._ctld))
        node = ("-N", "gpu01", "-f", self.at / "slurm.conf", "-d", self._root / "usr/sbin/slurmstepd")
        self._spawn("slurmd", "slurmd", "-D", *node)
        self.until("the node is idle", lambda: "idle" in self.run("sinfo", "--noheader", "--format=%T", check=False))

    def _configure(self) -> None:
        super()._configure()
        conf = self.at / "slurm.conf"
        replaced = ("Accounting", "SelectTypeParameters", "PriorityType", "KillWait", "SchedulerParameters", "DefMem")
        lines = [line for line in conf.read_text().splitlines() if not line.startswith(replaced)]
        at_once = "sched_min_interval=0,batch_sched_delay=0,bf_interval=1,sched_max_job_start=0,max_rpc_cnt=0"
        much = "bf_continue,default_queue_depth=2000,partition_job_depth=2000"
        lines += [
            "AccountingStorageType=accounting_storage/none",
            "SelectTypeParameters=CR_CPU",
            "KillWait=20",
            "MaxJobCount=20000",
            f"SchedulerParameters={at_once},{much}",
        ]
        conf.write_text("\n".join(lines) + "\n")

    _dbd = 0  # without accounting nothing listens there


@dataclass
class System:
    """A scheduler with its victims. notes: where the scripts note their times. submit: a script by its name and GPUs."""

    name: str
    notes: Path
    submit: Submit

    def times(self, pattern: str) -> list[float]:
        """What scripts of such names noted, Unix time in seconds."""
        return sorted(float(line) for file in self.notes.glob(pattern) for line in file.read_text().split())

    def until(self, what: str, pattern: str, count: int) -> list[float]:
        """Wait for so many notes. Raises `TimeoutError`."""
        limit = time.monotonic() + 2 * PATIENCE_S
        while len(found := self.times(pattern)) < count:
            if time.monotonic() > limit:
                raise TimeoutError(f"{self.name}: {what}: {len(found)} of {count}")
            time.sleep(0.005)
        return found

    def fill(self) -> None:
        """Submit the victims and wait until they run."""
        for number in range(GPUS):
            name = f"victim-{number}"
            self.submit(name, 1, VICTIM.format(notes=self.notes, name=name))
        self.until("the victims run", "victim-*.start", GPUS)

    def preempt(self, number: int) -> dict[str, float]:
        """One urgent job: seconds from its submission to each step, and from its end until all victims are back."""
        name, started = f"urgent-{number}-{self.name}", len(self.times("victim-*.start"))
        notified_before = len(self.times("victim-*.term"))
        began = time.time()
        self.submit(name, ASKED, URGENT.format(notes=self.notes, name=name))
        runs = self.until("the urgent job runs", f"{name}.start", 1)[0]
        notified = self.times("victim-*.term")[notified_before:]
        ended = self.until("the urgent job ends", f"{name}.end", 1)[0]
        back = self.until("the victims are back", "victim-*.start", started + len(notified))[started:]
        return {
            "runs": runs - began,
            "first_notified": notified[0] - began,
            "notified_to_runs": runs - notified[-1],
            "back": back[-1] - ended,
        }


def measure(run: Run) -> list[Row]:
    """Twenty repetitions, in turns (short form: four)."""
    root = run.folder / "slurm-packages"
    root.mkdir(parents=True)
    if missing := unpack(root):
        raise RuntimeError(f"no Slurm to compare with: {missing}")
    slurm = TunedSlurm(run.folder / "slurm", root / "root")
    nodes = [{"name": "node-1", "pool": POOL, "gpus": f"{GPUS}xH100-80GB"}]
    try:
        slurm.start()
        with Stack(run.folder / "bailiff", Plan(nodes=nodes)) as stack:
            return asyncio.run(_measure(run, stack, slurm))
    finally:
        slurm.stop()


async def _measure(run: Run, stack: Stack, slurm: Slurm) -> list[Row]:
    await all_joined(stack, POOL, 1)
    async with publishing(stack.kafka.bootstrap) as producer:
        loop = asyncio.get_running_loop()

        def publish(name: str, gpus: int, script: str) -> None:
            asyncio.run_coroutine_threadsafe(_publish(producer, name, gpus, script), loop).result()

        notes = run.folder / "notes-bailiff", run.folder / "notes-slurm"
        for folder in notes:
            folder.mkdir()
        ours = System("bailiff", notes[0], publish)
        command = System("command", notes[0], _with_command(stack))  # the same victims, the urgent job by `bailiff submit`
        theirs = System("slurm", notes[1], _sbatch(slurm))
        systems = (ours, command, theirs)
        found: dict[str, list[dict[str, float]]] = {system.name: [] for system in systems}
        await asyncio.to_thread(ours.fill)
        await asyncio.to_thread(theirs.fill)
        for number in range(4 if run.quick else 20):
            for system in systems:
                await asyncio.sleep(REST_S)
                found[system.name].append(await asyncio.to_thread(system.preempt, number))
    return _rows(found)


async def _publish(producer: AIOKafkaProducer, name: str, gpus: int, script: str) -> None:
    group = TaskGroup(gpu_milli=gpus * 1000, cpu_milli=100, memory_bytes=1 << 20)
    demand = JobDemand(job=name, tasks=(group,), priority_class=_class(gpus), grace=20_000_000)
    body = SubmitJob(demand=demand, spec=JobSpec(command=("bash", "-c", script), runtime="process"))
    headers, value = wrap(body, source="/bench", id=uuid.uuid4().hex, pool=POOL, time_us=time.time_ns() // 1000)
    await producer.send_and_wait(topics.REQUESTS.name, value, key=POOL.encode(), headers=list(headers))


def _class(gpus: int) -> str:
    return "inference" if gpus == ASKED else "train"


def _with_command(stack: Stack) -> Submit:
    env = {**os.environ, **stack.kafka_environment("operator"), "BAILIFF_POOL": POOL}

    def submit(name: str, gpus: int, script: str) -> None:
        words = ["submit", "--name", name, "--gpus", str(gpus), "--class", _class(gpus), "--", "bash", "-c", script]
        subprocess.run([Path(sys.executable).with_name("bailiff"), *words], env=env, check=True, stdout=subprocess.DEVNULL)

    return submit


def _sbatch(slurm: Slurm) -> Submit:
    def submit(name: str, gpus: int, script: str) -> None:
        partition = "high" if gpus == ASKED else "low"
        slurm.submit(f"--partition={partition}", f"--gres=gpu:{gpus}", f"--job-name={name}", script=script)

    return submit


def _rows(found: dict[str, list[dict[str, float]]]) -> list[Row]:
    def row(what: str, name: str, key: str, percent: int, target: str = "-") -> Row:
        ours, theirs = ([1e3 * each[key] for each in found[which]] for which in (name, "slurm"))
        label = f"8-GPU story, {len(ours)} repetitions: {what}, p{percent}"
        return Row(
            label,
            percentile(ours, percent),
            "ms",
            target,
            percentile(theirs, percent),
            f"ms: tuned Slurm, p{percent}",
            {"ms": ours, "ms_slurm": theirs, "median": median(ours)},
        )

    return [
        row("request published → urgent job runs", "bailiff", "runs", 50, "≤ 150 ms"),
        row("request published → urgent job runs", "bailiff", "runs", 99, "≤ 450 ms"),
        row("`bailiff submit` started → urgent job runs", "command", "runs", 50, "≤ 450 ms"),
        row("request published → first victim notified", "bailiff", "first_notified", 50),
        row("last victim notified → urgent job runs", "bailiff", "notified_to_runs", 50, "≤ 120 ms"),
        row("urgent job ended → all victims run again", "bailiff", "back", 50),
    ]
