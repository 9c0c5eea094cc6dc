"""The report of a month: what each budget and project used, and what preemption took from them, for whom."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from bailiff_core.budgets.months import month_begins, month_of, month_text
from bailiff_core.budgets.rows import Rows
from bailiff_core.model.policy import Policy
from bailiff_core.model.project_tree import ProjectTree
from bailiff_core.model.state import BudgetLevel
from bailiff_core.records.facts import PolicyApplied
from bailiff_core.records.wire import EPOCH_START, MICROSECOND
from bailiff_service.json_response import JsonResponse

from .accounting import PREEMPTOR, hours_of, known_until
from .problems import bad
from .query import PoolQuery, Reading

router = APIRouter(tags=["accounting"])
Month = Annotated[str | None, Query(description="As in 2026-12, UTC. Default: that of the newest record.", examples=["2026-12"])]
POLICY = """SELECT value FROM records WHERE pool = $1 AND type = 'PolicyApplied.v1' AND time < $2 ORDER BY seq DESC LIMIT 1"""
FIRST_POLICY = "SELECT first_policy AS value FROM pools WHERE id = $1 AND first_policy IS NOT NULL"
BUDGETS = """WITH held AS (
        SELECT *, extract(epoch FROM least(coalesce(to_at, $3), $3) - greatest(from_at, $2)) AS lasted,
            max(from_seq) OVER (PARTITION BY budget) AS newest
        FROM budget_usage WHERE pool = $1 AND from_at < $3 AND (to_at IS NULL OR to_at > $2)
    )
    SELECT n.budget, n.project, n.user_name, n.priority_class, n.counted_since, n.gpu_hours, n.level,
        CASE WHEN n.from_at >= $2 THEN n.topped_up ELSE 0 END AS topped_up,
        CASE WHEN n.from_at >= $2 THEN n.transferred ELSE 0 END AS transferred,
        (SELECT sum(h.used_gpu_milli * h.lasted) FROM held h
         WHERE h.budget = n.budget AND h.counted_since = n.counted_since) AS used
    FROM held n WHERE n.from_seq = n.newest ORDER BY n.budget"""
"""Top-ups and transfers of a row are of the month in which it begins. What a budget counted for other jobs is no part of it."""
USED = """SELECT coalesce(j.project, '') AS project, sum(u.used_gpu_milli
        * extract(epoch FROM least(coalesce(u.to_at, $3), $3) - greatest(u.from_at, $2))) AS used
    FROM job_usage u JOIN jobs j USING (pool, job, submitted_seq)
    WHERE u.pool = $1 AND tstzrange(u.from_at, u.to_at) && tstzrange($2, $3) GROUP BY 1"""
LOST = f"""SELECT coalesce(j.project, '') AS project, coalesce(j.user_name, '') AS user_name,
        coalesce(j.user_verified, false) AS user_verified, l.priority_class, coalesce(p.project, '') AS for_project,
        sum(l.work_gpu_ms) AS lost, sum(l.restart_gpu_ms) AS restart, count(*)::int AS preemptions, l.from_at
    FROM lost_work l JOIN jobs j USING (pool, job, submitted_seq) {PREEMPTOR}
    WHERE l.pool = $1 AND l.from_at >= $2 AND l.from_at < $3 AND l.cause = 'preemption'
    GROUP BY 1, 2, 3, 4, 5, l.from_at"""  # noqa: S608 - our own names


class Loss(BaseModel):
    """What preemption took, GPU-hours."""

    lost: float = Field(description="Work since the last checkpoint.")
    restart: float = Field(description="What the restarts cost.")
    preemptions: int


class LostTo(Loss):
    """The same, for jobs of one project."""

    project: str = Field(description="Of the preemptors; empty: none.")


class Losses(Loss):
    """All of it, and for whom."""

    lost_to: list[LostTo] = Field(description="Most first.")


class BudgetOfMonth(Losses):
    """A budget; GPU-hours."""

    budget: str
    project: str | None = Field(description="With the projects below it; null: any, as `user` and `priority_class`.")
    user: str | None
    priority_class: str | None
    counted_since: datetime = Field(description="In this month, from when its jobs count.")
    policy_hours: int
    topped_up_hours: int
    transferred_hours: int
    hours: int = Field(description="All in all.")
    used: float
    left: float
    level: BudgetLevel = Field(description="As recorded last in the month.")


class ProjectOfMonth(Losses):
    """A project by itself, without those below it; GPU-hours."""

    project: str = Field(description="Empty: jobs without a project.")
    used: float


class MonthReport(BaseModel):
    """Budgets as of the end of the month, or now."""

    month: str
    from_: datetime = Field(alias="from")
    to: datetime
    known_until: datetime | None = Field(description="What the archive does not know yet is not counted.")
    budgets: list[BudgetOfMonth]
    projects: list[ProjectOfMonth]


class _Sums:
    """Sums of losses, by the project of the preemptor."""

    def __init__(self) -> None:
        self.by_project: dict[str, list[int]] = {}

    def add(self, row: Any) -> None:
        sums = self.by_project.setdefault(row["for_project"], [0, 0, 0])
        for at, name in enumerate(("lost", "restart", "preemptions")):
            sums[at] += int(row[name])

    def answer(self) -> dict[str, Any]:
        ordered = sorted(self.by_project.items(), key=lambda item: (-item[1][0] - item[1][1], item[0]))
        total = [sum(column) for column in zip(*self.by_project.values(), strict=True)] or [0, 0, 0]
        return {**_loss(total), "lost_to": [{"project": name, **_loss(sums)} for name, sums in ordered]}


def _loss(sums: Sequence[int]) -> dict[str, Any]:
    return {"lost": hours_of(sums[0]), "restart": hours_of(sums[1]), "preemptions": sums[2]}


@router.get("/pools/{pool}/month", response_model=MonthReport, summary="The report of a month: budgets, use, lost to whom")
async def month(query: Annotated[PoolQuery, Depends()], month: Month = None) -> JsonResponse:
    """Exact definitions: docs/how-to/accounting.md."""
    async with query.reading() as reading:
        known = await known_until(reading)
        number = _month(month, known or datetime.now(UTC))
        begin, end = (EPOCH_START + month_begins(each) * MICROSECOND for each in (number, number + 1))
        bounds = (reading.pool["id"], begin, max(begin, min(end, known) if known is not None else begin))
        losses = await reading.fetch(LOST, *bounds[:2], end)
        policy = await _policy(reading, end)
        return reading.answer(
            {
                "month": month_text(number),
                "from": begin,
                "to": end,
                "known_until": known,
                "budgets": [each async for each in _budgets(reading, bounds, policy, losses)],
                "projects": _projects(await reading.fetch(USED, *bounds), losses),
            }
        )


def _month(text: str | None, now: datetime) -> int:
    if text is None:
        return month_of((now - EPOCH_START) // MICROSECOND)
    try:
        begins = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
    except ValueError:
        raise bad("month", text, "a month such as 2026-12") from None
    if len(text) != len("2026-12") or not 1970 <= begins.year < 9999:
        raise bad("month", text, "a month such as 2026-12, from 1970 on")
    return begins.year * 12 + begins.month - 1


async def _policy(reading: Reading, end: datetime) -> Policy | None:
    """The one in force at the end of the month, or now."""
    pool = reading.pool["id"]
    rows = await reading.fetch(POLICY, pool, end) or await reading.fetch(FIRST_POLICY, pool)
    return PolicyApplied.model_validate_json(rows[0]["value"]).policy if rows else None


def _projects(used: Sequence[Any], losses: Sequence[Any]) -> list[dict[str, Any]]:
    sums = {row["project"]: _Sums() for row in (*used, *losses)}
    for row in losses:
        sums[row["project"]].add(row)
    hours = {row["project"]: hours_of(row["used"]) for row in used}
    found = [{"project": name, "used": hours.get(name, 0.0), **each.answer()} for name, each in sums.items()]
    return sorted(found, key=lambda row: (-row["used"], row["project"]))


async def _budgets(reading: Reading, bounds: Sequence[Any], policy: Policy | None, losses: Sequence[Any]) -> Any:
    budgets = await reading.fetch(BUDGETS, *bounds)
    sums = {row["budget"]: _Sums() for row in budgets}
    since = {row["budget"]: row["counted_since"] for row in budgets}
    for name, loss in _of_budgets(policy, losses):
        if name in sums and loss["from_at"] >= since[name]:
            sums[name].add(loss)
    for row in budgets:
        hours = max(0, row["gpu_hours"] + row["topped_up"] + row["transferred"])
        used = hours_of(row["used"])
        yield {
            **{name: row[name] for name in ("budget", "project", "priority_class", "level")},
            "user": row["user_name"],
            "counted_since": max(row["counted_since"], bounds[1]),
            "policy_hours": row["gpu_hours"],
            "topped_up_hours": row["topped_up"],
            "transferred_hours": row["transferred"],
            "hours": hours,
            "used": used,
            "left": round(max(0.0, hours - used), 6),
            **sums[row["budget"]].answer(),
        }


def _of_budgets(policy: Policy | None, losses: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Each loss with the budgets that count its job."""
    if policy is None or not policy.budgets:
        return
    rows, tree = Rows(policy.budgets), ProjectTree(policy.projects)
    for loss in losses:
        of_job = loss["project"], loss["user_name"], loss["priority_class"]
        for row in rows.of(policy, tree, *of_job, verified=loss["user_verified"]):
            yield row.name, loss
