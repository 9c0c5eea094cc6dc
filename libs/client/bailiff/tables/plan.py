"""Tables of a plan: per cycle its decisions, placements, free resources, and pending jobs with reasons."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from bailiff.client.live_plan import attempt_text, proof_text, refusal_lines, shielded, victim_text
from bailiff.render.plain_text import plain
from bailiff_core.explain.victims import why_second
from bailiff_core.plan import PlanReport, Round
from bailiff_core.plan.report import DecisionLine, TaskLine, TaskStatus

from .style import table

STYLES = {
    "running": "green",
    "placed": "green",
    "reserved": "magenta",
    "moved": "yellow",
    "evicted": "yellow",
    "releasing": "yellow",
    "stuck_releasing": "red",
    "failed": "red",
    "pending": "",
    "succeeded": "dim",
    "gone": "dim",
}
TASKS_NAMED = 3


def plan_table(report: PlanReport) -> RenderableType:
    """`bailiff plan -o table`."""
    parts: list[RenderableType] = []
    for found in report.rounds:
        parts += [*_round(found, len(report.rounds)), Text("")]
    several = len(report.rounds) > 1
    if several or report.converged:
        word = "converged: the last round changed nothing"
        if not report.converged:
            word = "not converged: the last round changed something"
        parts.append(Text(word if several else "nothing to do: this cycle changes nothing", "dim"))
    else:
        parts.pop()
    return Group(*parts)


def _round(found: Round, of: int) -> Iterator[RenderableType]:
    counts = found.counts
    head = f"round {found.round} of {of} · " if of > 1 else ""
    yield Text(f"{head}{counts.placements} placed, {counts.evictions} evicted, {counts.reservations} reserved (tasks)", "bold")
    for decision in found.decisions:
        yield from _decision(decision)
    for note in found.notes:
        yield Text(plain(f"  {note}"))
    yield Text("")
    yield _jobs(found.tasks)
    yield Text("")
    yield _nodes(found)
    if found.pending:
        yield Text("")
        yield _pending(found)


def _decision(decision: DecisionLine) -> Iterator[Text]:
    comma = "," if decision.action == "stale-gang" else ""
    yield Text(plain(f"  {decision.action}: {decision.job} {decision.outcome}{comma} {decision.reason}"))
    for victim in decision.victims:
        yield Text(plain(f"      {victim_text(victim)}"), "yellow")
    why = decision.explanation
    if why is None:
        return
    yield Text(plain(f"      {'; '.join([proof_text(why), *shielded(why.excluded)])}"), "dim")
    if why.runner_up:
        yield Text(plain(f"      next best: {', '.join(why.runner_up)}.{why_second(why.cost, why.runner_up_cost)}"), "dim")
    for attempt in why.attempted_actions:
        yield Text(plain(f"      {attempt_text(attempt)}"), "dim")


def _jobs(lines: Iterable[TaskLine]) -> RenderableType:
    made = table("JOB", "TASKS", "BEFORE", "", "AFTER")
    for (job, before, after), group in groupby(lines, key=lambda line: (line.job, _short(line.before), _short(line.after))):
        members = list(group)
        same = before == after
        made.add_row(
            Text(plain(job), "dim" if same else "bold"),
            Text(plain(_members(members))),
            _at(members[0].before, members),
            Text("" if same else "→"),
            Text("") if same else _at(members[0].after, members, after=True),
        )
    return made


def _short(at: TaskStatus) -> tuple[str, str | None]:
    return at.state, at.node


def _members(lines: list[TaskLine]) -> str:
    names = [line.task for line in lines]
    return ", ".join(names) if len(names) <= TASKS_NAMED else f"{names[0]} … {names[-1]} ({len(names)})"


def _at(at: TaskStatus, lines: list[TaskLine], *, after: bool = False) -> Text:
    devices = [device for line in lines for device in (line.after if after else line.before).devices]
    where = f" {at.node}" if at.node else ""
    on = f" [{','.join(dict.fromkeys(devices))}]" if devices and at.node else ""
    return Text(plain(f"{at.state}{where}{on}"), STYLES.get(at.state, ""))


def _nodes(found: Round) -> RenderableType:
    made = table("NODE", "GPUS", "FREE", "RELEASING", "RESERVED", right=("GPUS", "FREE", "RELEASING", "RESERVED"))
    for node in found.nodes:
        made.add_row(Text(plain(node.node)), *(_number(value) for value in _gpus(node)))
    return made


def _gpus(node: Any) -> tuple[float, ...]:
    return node.gpus, node.gpus_free, node.gpus_releasing, node.gpus_reserved


def _number(value: float) -> str:
    return f"{value:g}" if value else "-"


def _pending(found: Round) -> RenderableType:
    made = table("PENDING", "REASON")
    for line in found.pending:
        why = [line.reason, *refusal_lines(line)]
        made.add_row(Text(plain(line.job), "bold"), Text("\n".join(plain(each) for each in why)))
    return made
