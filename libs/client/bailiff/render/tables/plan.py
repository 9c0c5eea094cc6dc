"""Tables of a plan: per cycle its decisions, placements, free resources, and pending jobs with reasons."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from bailiff.render.plain_text import plain
from bailiff_core.humanize import count_text, gpus_text
from bailiff_core.plan import PlanReport, Round
from bailiff_core.plan.report import AttemptedActionLine, DecisionLine, PendingLine, TaskLine, TaskStatus, VictimLine

from .style import table

STYLES = {
    "running": "green", "placed": "green", "reserved": "magenta", "moved": "yellow", "evicted": "yellow",
    "releasing": "yellow", "stuck_releasing": "red", "failed": "red", "pending": "", "succeeded": "dim", "gone": "dim",
}  # fmt: skip
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
        yield Text(plain(f"      {_victim(victim)}"), "yellow")
    notes = []
    if decision.proven is not None:
        notes.append(
            "proven to be the cheapest"
            if decision.proven
            else "the cheapest found, not proven: the search reached its step limit"
        )
    if decision.runner_up:
        notes.append(f"next best: {', '.join(decision.runner_up)}")
    notes += shielded(decision.excluded)
    if notes:
        yield Text(plain(f"      {'; '.join(notes)}"), "dim")
    for attempt in decision.attempted_actions:
        yield Text(plain(f"      {attempt_text(attempt)}"), "dim")


def shielded(excluded: Mapping[str, int]) -> list[str]:
    """`1 job excluded by not-preemptible`, rule by rule."""
    return [f"{count_text(jobs, 'job')} excluded by {rule}" for rule, jobs in excluded.items()]


def attempt_text(attempt: AttemptedActionLine) -> str:
    """The result of an action that found no victims."""
    ended = "reached its step limit" if attempt.gave_up else "found no victims"
    need = f": {attempt.would_need}" if attempt.would_need else ""
    return "; ".join([f"{attempt.action} {ended}{need}", *shielded(attempt.excluded)])


def _victim(victim: VictimLine) -> str:
    name = f"{victim.job} (priority {victim.priority}{f', project {victim.project}' if victim.project else ''})"
    does = "is evicted" if victim.stopped else f"continues with {count_text(len(victim.tasks), 'task')} fewer"
    if victim.moved_to and len(victim.moved_to) < len(victim.tasks):
        moves = f"{count_text(len(victim.moved_to), 'task')} of it to {', '.join(dict.fromkeys(victim.moved_to))}"
        does = f"continues, moves {moves}, with {count_text(len(victim.tasks) - len(victim.moved_to), 'task')} fewer"
    elif victim.moved_to:
        does = f"migrating to {', '.join(dict.fromkeys(victim.moved_to))}"
    if victim.was_reserved:
        return f"{name} had not started and loses its reservation"
    return f"{name} {does}: {gpus_text(round(victim.gpus * 1000))}, {victim.lost_gpu_seconds:g} GPU-seconds lost"


def refusal_lines(line: PendingLine) -> list[str]:
    """Why the job does not preempt others, by action."""
    if len(line.attempted_actions) > 1:
        return [attempt_text(attempt) for attempt in line.attempted_actions]
    return [*([f"to preempt other jobs: {line.would_need}"] if line.would_need else []), *shielded(line.excluded)]


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
    return node.gpus, node.free_gpus, node.releasing_gpus, node.reserved_gpus


def _number(value: float) -> str:
    return f"{value:g}" if value else "-"


def _pending(found: Round) -> RenderableType:
    made = table("PENDING", "REASON")
    for line in found.pending:
        why = [line.reason, *refusal_lines(line)]
        made.add_row(Text(plain(line.job), "bold"), Text("\n".join(plain(each) for each in why)))
    return made
