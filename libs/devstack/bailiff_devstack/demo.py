"""`make demo`: preemption on 8 GPUs with real processes, then the proof that no work and no record was lost.

It starts Kafka, the four services, and jobs as child processes, on simulated nodes (or this machine's own GPUs). Training
fills the GPUs; an urgent job is submitted; Bailiff preempts half of the training jobs, which save a checkpoint, exit, and are
restarted later. Then their node is drained, and one of them is killed. At the end each has the weights of an uninterrupted run,
bit for bit. Where CRIU is installed, a program that knows nothing of all this is preempted twice, is saved by its node and
continues on the other. The log is verified, and every decision is replayed and compared.
"""

import argparse
import asyncio
import shlex
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.rule import Rule

from bailiff.audit import chain_report
from bailiff.audit.replay import replay
from bailiff.cli.closed_pipe import discard_output, until_its_reader_quits
from bailiff.client.client import Client
from bailiff.render.record_text.lines import lines
from bailiff_bus.kafka import KafkaBus
from bailiff_core.humanize import duration_text
from bailiff_core.records import decisions, facts
from bailiff_service.access_tokens import API_TOKEN_FILE

from . import demo_plain
from .demo_costs import PreemptionCost, preemption_costs, table
from .demo_jobs import NoUsableGpu
from .demo_screen import Screen, full_table
from .demo_story import CRIU, FIRST, LATER, PLAIN, PLAIN_ROUNDS, POOL, TRAIN_STEPS, URGENT, DemoTimeout, Story, shared_checkpoints
from .demo_train import uninterrupted
from .stack import CONSOLE, START_ERRORS, Plan, Stack

PLAIN_WIDTH = 120
INTERRUPTIONS = 3
CONSOLE_TIMEOUT_S = 60
HISTORY_RECORDS = (
    facts.JobSubmitted,
    facts.NodeDrained,
    facts.TaskStarted,
    facts.TaskExited,
    facts.TaskResumed,
    decisions.PreemptionRequested,
    decisions.PreemptionDecided,
    decisions.EvictionDecided,
    decisions.JobRequeued,
    decisions.JobStarting,
    decisions.JobEnded,
    decisions.JobPlaced,
)


async def run_demo(stack: Stack, console: Console, gpus: str, picture: Path | None) -> int:
    """Run the demo, show one job's records, verify and replay the log. Returns the exit code."""
    expected = uninterrupted(TRAIN_STEPS)
    async with Client(KafkaBus(stack.kafka.bootstrap), source="/demo") as client:
        with Screen(console, picture) as screen:
            story = Story(client, stack, screen, gpus)
            acts = asyncio.ensure_future(story.play())
            others = [asyncio.ensure_future(story.follow()), asyncio.ensure_future(screen.redraw())]
            try:
                await asyncio.wait([acts, *others], return_when=asyncio.FIRST_COMPLETED)
                for task in (acts, *others):
                    if task.done():
                        task.result()
            finally:
                for task in (acts, *others):
                    task.cancel()
                await asyncio.gather(acts, *others, return_exceptions=True)
        _show_history(story, console)
        of_plain = preemption_costs(story.records, PLAIN, 0) if story.saves else []
        same = _show_weights(story, console, expected, of_plain)
        plain_same = not story.saves or _show_plain(story, console, of_plain)
        proved = await _prove(client, console)
        return 0 if same and plain_same and proved else 1


def _show_history(story: Story, console: Console) -> None:
    """Print the records of one preempted job and of its preemptor."""
    console.print(Rule(f"{story.tracked_job} in the audit log"))
    selected = [
        line for record in story.records if isinstance(record.data, HISTORY_RECORDS) for line in lines(record, story.state)
    ]
    subjects = {URGENT, FIRST, story.tracked_job, ""}  # the summary of a decision has no subject
    console.print(
        full_table([line for line in selected if line.statement.subject.partition(" ")[0].partition("/")[0] in subjects])
    )
    cost = duration_text(story.state.rules.preemption.restart_cost)
    console.print(f"Work lost: since the last checkpoint. To restart: {cost} for each GPU, as the policy assumes.", style="dim")


def _show_weights(story: Story, console: Console, expected: str, of_plain: list[PreemptionCost]) -> bool:
    """Print the cost of each interruption. Whether the weights equal those of an uninterrupted run."""
    found = preemption_costs(story.records, story.tracked_job, story.killed_at)
    console.print(Rule(f"cost of each interruption of {story.tracked_job}{f', and of {PLAIN}' if of_plain else ''}"))
    console.print(table([*found, *of_plain]))
    console.print(Rule("final weights (SHA-256)"))
    ended = {name: story.result(name) for name in story.names}
    for label, digest in (("uninterrupted", expected), (story.tracked_job, ended[story.tracked_job] or "none printed")):
        console.print(f"{label:<14} {digest}", soft_wrap=True)
    differ = [name for name, digest in ended.items() if digest != expected]
    if differ or len(found) != INTERRUPTIONS:
        console.print(f"[red]DIFFERENT[/]: {', '.join(differ) or f'{story.tracked_job} was interrupted {len(found)} times'}")
        return False
    console.print(
        f"[green]bit-identical[/] after {TRAIN_STEPS} steps and {INTERRUPTIONS} interruptions{_so_are_the_others(len(ended) - 1)}"
    )
    return True


def _show_plain(story: Story, console: Console, found: list[PreemptionCost]) -> bool:
    """Whether the plain program, saved at each interruption, ends as one that was never touched."""
    untouched, ended = demo_plain.estimate(PLAIN_ROUNDS).rpartition(" ")[2], story.result(PLAIN)
    console.print(Rule(f"what {PLAIN} has computed, which saves nothing itself"))
    for label, result in (("uninterrupted", untouched), (PLAIN, ended or "nothing printed")):
        console.print(f"{label:<14} {result}", soft_wrap=True)
    if ended != untouched or [each.steps_lost for each in found] != [0] * len(LATER):
        console.print(f"[red]DIFFERENT[/]: {PLAIN} was interrupted {len(found)} times")
        return False
    console.print(f"[green]the same[/] after {len(found)} interruptions: saved by its node, continued on the other")
    return True


def _so_are_the_others(others: int) -> str:
    return "" if not others else "; so is the other job" if others == 1 else f"; so are the other {others} jobs"


async def _prove(client: Client, console: Console) -> bool:
    """Verify the hash chain and replay every decision. Whether both succeed."""
    console.print(Rule("proof"))
    pool = await client.pool(POOL)
    spans = {pool.partition: (await client.audit_spans())[pool.partition]}
    verified = await chain_report.verify(POOL, client.messages("bailiff.audit", spans))
    replayed = await replay(POOL, lambda: client.messages("bailiff.audit", spans))
    if not verified["ok"] or not replayed["ok"]:
        console.print(f"[red]PROOF FAILED[/]: {verified['broken'] or replayed['difference'] or replayed['error']}")
        return False
    console.print(
        f"[green]verified[/]  {verified['records']} records, one hash chain to {verified['head_hash'][:16]}…, "
        f"{verified['orphans']} orphans"
    )
    console.print(
        f"[green]replayed[/]  {replayed['cycles']} decision cycles, {replayed['decisions']} decisions, byte for byte identical"
    )
    return True


NEXT = """
Next steps
  make up                    start the same system and leave it running, with its web console
  make demo STAY=1           run this demo again, and watch it in the web console
  .venv/bin/bailiff --help   submit, list, explain, drain, audit verify, …
  docs/tutorial/index.md     thirty minutes, step by step
  docs/how-to/survive-preemption.md
                             how to make a training script preemptible
  docs/reference/kafka.md    submit and read with any Kafka client
  make test                  every check, and every test that needs no whole system
"""


def for_cli(stack: Stack) -> str:
    """What a shell needs so that `bailiff` reads and writes this system, as lines to copy."""
    exported = {
        **stack.kafka_environment("operator"),
        "BAILIFF_API": stack.api,
        "BAILIFF_API_TOKEN_FILE": str(stack.folder / "state" / API_TOKEN_FILE),
    }
    values = " ".join(f"{name}={shlex.quote(value)}" for name, value in exported.items())
    return (
        "In another terminal, to use the command line:\n"
        f"  export {values} PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH\n"
        "  bailiff list --all; bailiff explain train-1; bailiff audit tail -f"
    )


def main() -> int:
    """Start everything, run the demo, stop everything."""
    parser = argparse.ArgumentParser(prog="bailiff_devstack.demo")
    parser.add_argument("--gpus", default="8xH100-80GB", help="simulated GPUs by name, or nvml for this machine's own")
    parser.add_argument("--picture", type=Path, help="write the screen at the first eviction to this SVG file")
    parser.add_argument("--stay", action="store_true", help="start the web console, too, and keep running until Ctrl-C")
    options = parser.parse_args()
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    folder = Path(tempfile.mkdtemp(prefix="bailiff-demo-"))
    node, stay = {"name": FIRST, "pool": POOL, "gpus": options.gpus}, options.stay
    env = {"BAILIFF_CRIU": CRIU, "BAILIFF_SHARED_CHECKPOINTS": str(shared_checkpoints(folder))}
    plan = Plan(nodes=[node], env=env, archive=True, api=stay, console=stay)
    stack = Stack(folder, plan, progress=lambda text: console.print(f"• {text}", style="dim"))
    try:
        stack.start()
        if stay:
            stack.processes.wait_ready(CONSOLE, timeout_s=CONSOLE_TIMEOUT_S)
            console.print(f"\nWeb console: {stack.console_link}\n", style="bold", soft_wrap=True)
            console.print(f"{for_cli(stack)}\n", soft_wrap=True, markup=False)
        code = asyncio.run(run_demo(stack, console, options.gpus, options.picture))
        if stay:
            console.print(f"\nStill running; stop it with Ctrl-C. Web console: {stack.console}", style="bold")
            console.print(for_cli(stack), soft_wrap=True, markup=False)
            signal.pause()
        console.print(NEXT, highlight=False)
        return code
    except NoUsableGpu as reason:
        console.print(f"[red]The demo needs a GPU[/]: {escape(str(reason))}", soft_wrap=True)
        return 1
    except DemoTimeout as timeout:
        console.print(f"[red]The demo timed out[/]: {timeout}. The logs of the services are in {folder}")
        folder = Path()
        return 1
    except BrokenPipeError:  # as in `make demo | head`
        discard_output()
        return 0
    except START_ERRORS as fault:
        console.print(f"[red]The demo did not start[/]: {escape(str(fault))}", soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("\ninterrupted: stopping everything")
        return 130
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the shutdown
        stack.close()
        if folder != Path():
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    until_its_reader_quits(lambda: sys.exit(main()))
