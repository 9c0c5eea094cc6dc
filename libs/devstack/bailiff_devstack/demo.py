"""`make demo`: the 8-GPU story, played for real and then proved.

A Kafka, the four services as processes, and jobs that are child processes, on a simulated node (or this machine's own
GPUs). Training fills the GPUs; an urgent job is published as an event; Bailiff decides who must go; they save, leave,
and come back by themselves. Then the log is verified, and every decision made again and compared.
"""

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.rule import Rule

from bailiff import walk
from bailiff.client import Client
from bailiff.eventline import lines, styled
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.messages import JobSpec
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.pool import Job, Pool
from bailiff_core.records import Record, decisions, facts

from .demo_screen import Screen
from .stack import CANNOT_START, Plan, Stack

DOMAIN = "pool-a"
URGENT = "serve-1"
TRAIN_STEPS = 70
SERVE_SECONDS = 3
PATIENCE_S = 60.0
PLAIN_WIDTH = 150
TOLD = (
    facts.JobSubmitted,
    facts.TaskStarted,
    facts.TaskExited,
    decisions.PreemptionRequested,
    decisions.PreemptionDecided,
    decisions.JobRequeued,
    decisions.JobStartOrdered,
    decisions.JobEnded,
    decisions.JobPlaced,
)


class StoryStuck(Exception):
    """The story did not go on in time."""


class Story:
    """Submits, and watches the audit log until what should happen has happened."""

    def __init__(self, client: Client, screen: Screen) -> None:
        self._client, self._screen = client, screen
        self.pool = Pool()
        self.records: list[Record] = []
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        """Read the log for as long as the story lasts."""
        while not await self._client.domains():  # noqa: ASYNC110 - the log's first record comes from another process
            await asyncio.sleep(0.05)
        async for entry in self._client.follow(DOMAIN, pool=self.pool):
            self.records.append(entry.record)
            self._screen.event(entry.record, self.pool)
            self._changed.set()

    async def until(self, what: str, condition: Callable[[Pool], bool]) -> None:
        """Wait until the state is so. Raises `StoryStuck`."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not condition(self.pool):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise StoryStuck(f"waited {PATIENCE_S:.0f} s for this: {what}") from None

    async def submit(self, job: str, gpus: int, class_name: str, command: tuple[str, ...]) -> None:
        """Publish a request, as anybody could."""
        group = TaskGroup(gpu_milli=gpus * 1000, cpu_milli=1000, memory_bytes=1 << 30)
        demand = JobDemand(job=job, tasks=(group,), priority_class=class_name, grace=5_000_000)
        await self._client.submit(demand, JobSpec(command=command), domain=DOMAIN)

    async def play(self) -> None:
        """From an empty node to the last training job's end."""
        screen = self._screen
        screen.act("A node joins")
        await self.until("the node joins", lambda pool: bool(pool.nodes))
        gpus = len(self.pool.nodes[0].devices)
        asked = max(1, gpus // 2)
        screen.act(f"Training fills all {gpus} GPUs")
        train = (sys.executable, "-u", str(Path(__file__).with_name("demo_train.py")), str(TRAIN_STEPS))
        names = [f"train-{number}" for number in range(1, gpus + 1)]
        for name in names:
            await self.submit(name, 1, "train", train)
        await self.until("all training runs", lambda pool: _all(pool, names, "running"))
        screen.act(f"{URGENT} is published: {asked} GPUs, class inference. None is free")
        await self.submit(URGENT, asked, "inference", ("sleep", str(SERVE_SECONDS)))
        await self.until("a decision", lambda pool: URGENT in pool.jobs and pool.jobs[URGENT].phase != "pending")
        screen.act(f"Decided: {asked} of {gpus} leave; their GPUs are kept for {URGENT}")
        await self.until(f"{URGENT} runs", lambda pool: pool.jobs[URGENT].phase in ("running", "succeeded"))
        screen.act(f"{URGENT} runs; the others wait at their old place in the queue")
        await self.until(f"{URGENT} ends", lambda pool: pool.jobs[URGENT].phase == "succeeded")
        screen.act(f"{URGENT} is done; those who left come back by themselves")
        await self.until("everybody has finished", lambda pool: _all(pool, names, "succeeded"))
        screen.act("All training is finished")


def _all(pool: Pool, names: list[str], phase: str) -> bool:
    jobs: list[Job | None] = [pool.jobs.get(name) for name in names]
    return all(job is not None and (job.phase == phase or job.phase == "succeeded") for job in jobs)


async def tell(stack: Stack, console: Console, picture: Path | None) -> int:
    """Play the story, then show its record and prove it."""
    async with Client(KafkaBus(stack.kafka.bootstrap), source="/demo") as client:
        with Screen(console, picture) as screen:
            story = Story(client, screen)
            following = asyncio.ensure_future(story.follow())
            playing = asyncio.ensure_future(story.play())
            try:
                await asyncio.wait([following, playing], return_when=asyncio.FIRST_COMPLETED)
                for task in (following, playing):
                    if task.done():
                        task.result()
            finally:
                for task in (following, playing):
                    task.cancel()
                await asyncio.gather(following, playing, return_exceptions=True)
        _show_preemption(story, console)
        return await _prove(client, console)


def _show_preemption(story: Story, console: Console) -> None:
    """The audit stream of the preemption, and of what became of those it was about."""
    console.print(Rule("the preemption, as the audit log has it"))
    victims = {job.id for job in story.pool.jobs.values() if job.evictions}
    begun = False
    for record in story.records:
        begun = begun or (isinstance(record.data, facts.JobSubmitted) and record.data.demand.job == URGENT)
        about = getattr(record.data, "job", URGENT)
        if begun and isinstance(record.data, TOLD) and about in {URGENT, *victims}:
            for line in lines(record, story.pool):
                console.print(styled(line), overflow="ellipsis", no_wrap=True)


async def _prove(client: Client, console: Console) -> int:
    """Verify the chain and replay every decision. The exit code."""
    console.print(Rule("the proof"))
    domain = await client.domain(DOMAIN)
    spans = {domain.partition: (await client.audit_spans())[domain.partition]}
    verified = await walk.verify(DOMAIN, client.messages("bailiff.audit", spans))
    replayed = await walk.replay(DOMAIN, client.messages("bailiff.audit", spans))
    if not verified["ok"] or not replayed["ok"]:
        console.print(f"[red]NOT PROVED[/]: {verified['broken'] or replayed['difference'] or replayed['error']}")
        return 1
    console.print(
        f"[green]verified[/]  {verified['records']} records, one hash chain from #0 to #{verified['head_seq']}, "
        f"{verified['orphans']} orphans, head {verified['head_hash'][:16]}…"
    )
    console.print(
        f"[green]replayed[/]  {replayed['turns']} turns decided again, {replayed['decisions']} decisions, every byte the same"
    )
    return 0


NEXT = """
What to try next
  make up                            the same system, left running; it prints how to submit to it
  .venv/bin/bailiff --help           submit, list, describe, audit tail, audit verify, audit replay …
  docs/kafka-interface.md            publish requests and consume decisions with plain Kafka
  make test                          everything that holds this up
"""


def main() -> int:
    """Start everything, tell the story, leave nothing behind."""
    parser = argparse.ArgumentParser(prog="bailiff_devstack.demo")
    parser.add_argument("--gpus", default="8xH100-80GB", help="simulated GPUs by name, or nvml for this machine's own")
    parser.add_argument("--picture", type=Path, help="write the screen at the moment of the eviction to this SVG file")
    options = parser.parse_args()
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    folder = Path(tempfile.mkdtemp(prefix="bailiff-demo-"))
    plan = Plan(nodes=[{"name": "node-1", "domain": DOMAIN, "gpus": options.gpus}], archive=True)
    stack = Stack(folder, plan, progress=lambda text: console.print(f"• {text}", style="dim"))
    try:
        stack.start()
        code = asyncio.run(tell(stack, console, options.picture))
        console.print(NEXT, highlight=False)
        return code
    except StoryStuck as stuck:
        console.print(f"[red]The story got stuck[/]: {stuck}. The services' logs are kept in {folder}")
        folder = Path()
        return 1
    except CANNOT_START as fault:
        console.print(f"[red]The demo could not start[/]: {escape(str(fault))}", soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("\ninterrupted: ending everything")
        return 130
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave half of it running
        stack.stop()
        if folder != Path():
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
