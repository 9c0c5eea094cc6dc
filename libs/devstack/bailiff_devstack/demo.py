"""`make demo`: the 8-GPU story, played for real and then proved.

A Kafka, the four services as processes, and jobs that are child processes, on simulated nodes (or this machine's own
GPUs). Training fills the GPUs; an urgent job is published as an event; Bailiff decides who must go; they save, leave, and
come back by themselves. Then their node is drained, and then one of them is killed outright. In the end each has the weights
of a run that nobody interrupted, to the last bit; the log is verified, and every decision made again and compared.
"""

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.rule import Rule

from bailiff import walk
from bailiff.client import Client
from bailiff.eventline.lines import lines
from bailiff.replaying import replay
from bailiff_bus.kafka import KafkaBus
from bailiff_core.records import decisions, facts
from bailiff_core.words import duration_text

from .demo_losses import losses, table
from .demo_screen import Screen, whole
from .demo_story import DOMAIN, FIRST, TRAIN_STEPS, URGENT, Story, StoryStuck
from .demo_train import left_alone
from .stack import CANNOT_START, CONSOLE, Plan, Stack

PLAIN_WIDTH = 120
TIMES = 3
CONSOLE_WITHIN_S = 60
TOLD = (
    facts.JobSubmitted,
    facts.NodeDrained,
    facts.TaskStarted,
    facts.TaskExited,
    facts.TaskResumed,
    decisions.PreemptionRequested,
    decisions.PreemptionDecided,
    decisions.EvictionDecided,
    decisions.JobRequeued,
    decisions.JobStartOrdered,
    decisions.JobEnded,
    decisions.JobPlaced,
)


async def tell(stack: Stack, console: Console, gpus: str, picture: Path | None) -> int:
    """Play the story, then show its record and prove it. The exit code."""
    alone = left_alone(TRAIN_STEPS)
    async with Client(KafkaBus(stack.kafka.bootstrap), source="/demo") as client:
        with Screen(console, picture) as screen:
            story = Story(client, stack, screen, gpus)
            playing = asyncio.ensure_future(story.play())
            others = [asyncio.ensure_future(story.follow()), asyncio.ensure_future(screen.redraw())]
            try:
                await asyncio.wait([playing, *others], return_when=asyncio.FIRST_COMPLETED)
                for task in (playing, *others):
                    if task.done():
                        task.result()
            finally:
                for task in (playing, *others):
                    task.cancel()
                await asyncio.gather(playing, *others, return_exceptions=True)
        _show_history(story, console)
        same = _show_weights(story, console, alone)
        proved = await _prove(client, console)
        return 0 if same and proved else 1


def _show_history(story: Story, console: Console) -> None:
    """What the audit log has of the run that was preempted and of whom it left for."""
    console.print(Rule(f"{story.hero}, as the audit log has it"))
    told = [line for record in story.records if isinstance(record.data, TOLD) for line in lines(record, story.pool)]
    others = {URGENT, FIRST, story.hero, ""}  # a decision's sum has no name
    console.print(whole([line for line in told if line.said.who.partition(" ")[0].partition("/")[0] in others]))
    cost = duration_text(story.pool.rules.preemption.restart_cost)
    console.print(f"What is lost: work since the last checkpoint, and {cost} for a restart, as the policy has it.", style="dim")


def _show_weights(story: Story, console: Console, alone: str) -> bool:
    """What each preemption cost, and whether the weights are those of a run that was left alone."""
    found = losses(story.records, story.hero, story.killed_at)
    console.print(Rule(f"what it cost {story.hero}"))
    console.print(table(found))
    console.print(Rule("the weights in the end"))
    ended = {name: story.printed(name) for name in story.names}
    for who, digest in (("left alone", alone), (story.hero, ended[story.hero] or "it printed none")):
        console.print(f"{who:<11} {digest}", soft_wrap=True)
    differ = [name for name, digest in ended.items() if digest != alone]
    if differ or len(found) != TIMES:
        console.print(f"[red]NOT THE SAME[/]: {', '.join(differ) or f'{story.hero} was preempted {len(found)} times'}")
        return False
    console.print(
        f"[green]bit-identical[/] after {TRAIN_STEPS} steps and {TIMES} preemptions; so are the other {len(ended) - 1} runs"
    )
    return True


async def _prove(client: Client, console: Console) -> bool:
    """Verify the chain and replay every decision."""
    console.print(Rule("the proof"))
    domain = await client.domain(DOMAIN)
    spans = {domain.partition: (await client.audit_spans())[domain.partition]}
    verified = await walk.verify(DOMAIN, client.messages("bailiff.audit", spans))
    replayed = await replay(DOMAIN, lambda: client.messages("bailiff.audit", spans))
    if not verified["ok"] or not replayed["ok"]:
        console.print(f"[red]NOT PROVED[/]: {verified['broken'] or replayed['difference'] or replayed['error']}")
        return False
    console.print(
        f"[green]verified[/]  {verified['records']} records, one hash chain to {verified['head_hash'][:16]}…, "
        f"{verified['orphans']} orphans"
    )
    console.print(
        f"[green]replayed[/]  {replayed['turns']} turns decided again, {replayed['decisions']} decisions, every byte the same"
    )
    return True


NEXT = """
What to try next
  make up                    the same system, left running, with its web page
  make demo STAY=1           this story again, to be watched on the web page
  .venv/bin/bailiff --help   submit, list, explain, drain, audit verify, …
  docs/jobs.md               what a training script needs to survive this
  docs/kafka-interface.md    publish and read with plain Kafka
  make test                  everything that holds this up
"""


def main() -> int:
    """Start everything, tell the story, leave nothing behind."""
    parser = argparse.ArgumentParser(prog="bailiff_devstack.demo")
    parser.add_argument("--gpus", default="8xH100-80GB", help="simulated GPUs by name, or nvml for this machine's own")
    parser.add_argument("--picture", type=Path, help="write the screen at the moment of the eviction to this SVG file")
    parser.add_argument("--stay", action="store_true", help="with the console, to watch there; goes on running until Ctrl-C")
    options = parser.parse_args()
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    folder = Path(tempfile.mkdtemp(prefix="bailiff-demo-"))
    node, stay = {"name": FIRST, "domain": DOMAIN, "gpus": options.gpus}, options.stay
    plan = Plan(nodes=[node], archive=True, api=stay, console=stay)
    stack = Stack(folder, plan, progress=lambda text: console.print(f"• {text}", style="dim"))
    try:
        stack.start()
        if stay:
            stack.processes.wait_ready(CONSOLE, timeout_s=CONSOLE_WITHIN_S)
            console.print(f"\nWatch it: {stack.console}\n", style="bold")
        code = asyncio.run(tell(stack, console, options.gpus, options.picture))
        if stay:
            console.print(f"\nIt stays, until Ctrl-C: {stack.console}", style="bold")
            signal.pause()
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
        stack.close()
        if folder != Path():
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
