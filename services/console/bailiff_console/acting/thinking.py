"""Questions about a pool that take a while: what a job would meet, what a request would cause, what a policy would change."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bailiff import planlive
from bailiff.described import Fault, fault_of, job_in
from bailiff.eventline.words import demand_text
from bailiff.foreseen import anyway, at, fact_of, foreseen
from bailiff.policydiff import changes
from bailiff_bus.messages import ApplyPolicy, SubmitJob
from bailiff_bus.policyfile import Faults, inner_policy, line_of, policy_from
from bailiff_bus.yamlfile import Lines, UnreadableFile, parse_foreign_yaml
from bailiff_core.model.demand import JobDemand
from bailiff_core.model.policy import Policy
from bailiff_core.model.pool import ENDED, Pool
from bailiff_core.words import count_text

from .kinds import KINDS, SUBMIT
from .previews import preview
from .telling import Preview

Fields = Mapping[str, Any]
Thought = dict[str, Any]
MOST_FAULTS = 100
DEFAULT_PROJECT = "default"


def think(question: str, fields: Fields, pool: Pool) -> Thought:
    """The answer, as JSON. `pool` is only read. Raises `Problem`."""
    return QUESTIONS[question](fields, pool)


def _job(fields: Fields, pool: Pool) -> Thought:
    """The job that a text describes; project: whose it will be."""
    job, faults = job_in(fields["yaml"], fields.get("project"))
    if job is None:
        return {"faults": _told(faults), "job": None, "project": ""}
    return {"faults": [], "job": job.model_dump_json(), "project": project_of(pool, job.demand)}


def project_of(pool: Pool, demand: JobDemand) -> str:
    """The project that the job will be in: where it names none, that which the policy has for such jobs."""
    if demand.project is not None:
        return demand.project
    known = pool.policy is not None and any(each.name == DEFAULT_PROJECT for each in pool.policy.projects)
    return DEFAULT_PROJECT if known else ""


def _plan(fields: Fields, pool: Pool) -> Thought:
    """What would become of the job if it were submitted now."""
    job, faults = job_in(fields["yaml"], fields.get("project"))
    if job is None:
        return {"faults": _told(faults), "demand": "", "answer": None, "sentences": [], "job": "", "project": ""}
    answer, sentences = planlive.ask(at(pool, fields["now"]), job.demand, fields["now"])
    about = {"demand": demand_text(job.demand), "job": job.demand.job, "project": project_of(pool, job.demand)}
    return {"faults": [], "answer": answer, "sentences": sentences, **about}


def _preview(fields: Fields, pool: Pool) -> Thought:
    if fields["kind"] != SUBMIT:
        body = KINDS[fields["kind"]].model_validate_json(fields["body"])
        return preview(pool, body, fields["now"]).to_data()
    job, faults = job_in(fields["yaml"], fields.get("project"))
    if job is None:
        return {**Preview().to_data(), "faults": _told(faults)}
    return _submission(pool, job, fields["now"])


def _submission(pool: Pool, job: SubmitJob, now: int) -> Thought:
    answer, sentences = planlive.ask(at(pool, now), job.demand, now)
    victims = answer["decision"]["victims"] if answer["decision"] is not None else []
    refused = [answer["reason"]] if answer["outcome"] == "rejected" else []
    said = Preview([] if refused else sentences, faults=refused).to_data()
    said["affected"] = [
        {
            "job": each["job"],
            "priority_class": pool.jobs[each["job"]].class_name,
            "priority": each["priority"],
            "what": "moves" if each["moved_to"] else "leaves" if each["stopped"] else "shrinks",
            "to": list(dict.fromkeys(each["moved_to"])),
            "tasks": "",
            "gpus": f"{each['gpus']:g}",
            "grace_s": 0,
            "lost_gpu_ms": round(each["lost_gpu_seconds"] * 1000),
        }
        for each in victims
    ]
    return said


def _plan_policy(fields: Fields, pool: Pool) -> Thought:
    """What this policy says differently, and what that would change at once."""
    policy, faults = policy_in(fields["yaml"])
    if policy is None:
        return {"faults": _told(faults), "diff": [], "sentences": []}
    diff = changes(pool.rules, policy)
    sentences = _changed_now(at(pool, fields["now"]), policy) if diff else ["It says what is in force: nothing would change."]
    return {"faults": [], "diff": diff, "sentences": sentences}


def _policy(fields: Fields, _: Pool) -> Thought:
    return {"faults": _told(policy_in(fields["yaml"])[1])}


def policy_in(text: str) -> tuple[Policy | None, list[Fault]]:
    """The policy that this YAML is, or every fault."""
    try:
        value, lines = inner_policy(*parse_foreign_yaml(text, ""))
    except UnreadableFile as error:
        return None, [fault_of(error)]
    policy, faults = policy_from(value)
    return policy, _placed(faults, lines)


def _placed(faults: Faults, lines: Lines) -> list[Fault]:
    found = (Fault(line_of(lines, place), ".".join(map(str, place)), said) for place, said in faults)
    return sorted(dict.fromkeys(found), key=lambda fault: fault.line)


def _changed_now(pool: Pool, policy: Policy) -> list[str]:
    refused = [*_left_without(pool, policy)]
    if refused:
        return refused
    found, before = foreseen(pool, fact_of(ApplyPolicy(policy=policy))).placed(), anyway(pool).placed()
    gained = {job: nodes for job, nodes in found.items() if job not in before}
    lost = [job for job in before if job not in found]
    said = [f"{job} could start, on {', '.join(nodes[:5])}." for job, nodes in list(gained.items())[:10]]
    said += [f"{job} could no longer start." for job in lost[:10]]
    more = max(0, len(gained) - 10) + max(0, len(lost) - 10)
    return [*said, *([f"And {count_text(more, 'more job')}."] if more else [])] or [
        "As things are it starts and stops nobody at once."
    ]


def _left_without(pool: Pool, policy: Policy) -> Iterable[str]:
    """Jobs whose class or project it lacks: with them it is refused."""
    projects = dict.fromkeys(each.name for each in policy.projects)
    known = dict.fromkeys(each.name for each in pool.rules.projects)
    for job in pool.jobs.values():
        if job.phase in ENDED:
            continue
        if policy.find_class(job.class_name) is None:
            yield f"It would be refused: job {job.id} has the class {job.class_name}, which it lacks."
            return
        if job.project in known and job.project not in projects:
            yield f"It would be refused: job {job.id} is of the project {job.project}, which it lacks."
            return


def _told(faults: Iterable[Fault]) -> list[Thought]:
    told = [
        {
            "where": f"line {each.line}{f': {each.field}' if each.field else ''}",
            "line": each.line,
            "field": each.field,
            "text": each.text,
        }
        for each in faults
    ]
    return told[:MOST_FAULTS]


QUESTIONS: Mapping[str, Callable[[Fields, Pool], Thought]] = {
    "job": _job, "plan": _plan, "preview": _preview, "plan-policy": _plan_policy, "policy": _policy,
}  # fmt: skip
