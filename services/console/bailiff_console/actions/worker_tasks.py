"""Tasks of the worker process: parse a job, plan it, preview a request, plan a policy."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from typing_extensions import TypedDict

from bailiff.client import live_plan
from bailiff.client.job_request import Fault, fault_of, job_in
from bailiff.client.live_plan import LivePlan
from bailiff.client.preview import at
from bailiff.client.requester import lost_by
from bailiff.policy.policy_diff import changes
from bailiff.policy.policy_effects import policy_effects
from bailiff.policy.quota_findings import new_quota_findings
from bailiff.render.record_text.phrases import demand_text
from bailiff_core.humanize import count_text
from bailiff_core.model.demand import JobDemand
from bailiff_core.model.policy import Policy
from bailiff_core.model.state import PoolState
from bailiff_core.permissions import Requester
from bailiff_core.records.job_requests import SubmitJob
from bailiff_core.records.pool_requests import ApplyPolicy
from bailiff_service.policy_files import Faults, policy_from
from bailiff_service.yaml_files import Lines, UnreadableFile, line_of, parse_untrusted_yaml

from .preview_text import ErrorRow, Preview
from .previews import preview
from .request_types import KINDS, SUBMIT

Fields = Mapping[str, Any]
TaskResult = dict[str, Any]
MAX_FAULTS = 100
MAX_SENTENCES = 60
DEFAULT_PROJECT = "default"


class JobPlan(TypedDict):
    """What would happen to a job. answer: null: the job has errors, and nothing was planned."""

    errors: list[ErrorRow]
    demand: str
    job: str
    project: str
    answer: LivePlan | None
    sentences: list[str]


class PolicyPlan(TypedDict):
    """What a policy would change. diff: a line per field. harms: jobs, or the user, would lose something.

    loses_permissions: the user would, and must confirm it. rejected: admission would reject it.
    """

    errors: list[ErrorRow]
    diff: list[str]
    sentences: list[str]
    harms: bool
    loses_permissions: bool
    rejected: bool


def run_task(task: str, fields: Fields, state: PoolState) -> TaskResult:
    """The result as JSON. `state` is only read. Raises `ClientError`."""
    return TASKS[task](fields, state)


def _job(fields: Fields, state: PoolState) -> TaskResult:
    """The job described by a YAML text, and the project it will be in."""
    job, faults = _read(fields, state)
    if job is None:
        return {"errors": _error_rows(faults), "job": None, "project": ""}
    return {"errors": [], "job": job.model_dump_json(), "project": project_of(state, job.demand)}


def _read(fields: Fields, state: PoolState) -> tuple[SubmitJob | None, list[Fault]]:
    return job_in(fields["yaml"], fields.get("project"), (state, fields["user"]))


def project_of(state: PoolState, demand: JobDemand) -> str:
    """The project the job will be in: its own, else the policy's default project."""
    if demand.project is not None:
        return demand.project
    known = state.policy is not None and any(each.name == DEFAULT_PROJECT for each in state.policy.projects)
    return DEFAULT_PROJECT if known else ""


def _plan(fields: Fields, state: PoolState) -> TaskResult:
    """What would happen to the job if it were submitted now."""
    job, faults = _read(fields, state)
    if job is None:
        return {"errors": _error_rows(faults), "demand": "", "answer": None, "sentences": [], "job": "", "project": ""}
    answer, sentences = live_plan.predict(at(state, fields["now"]), job.demand, fields["now"], _sender(fields))
    about = {"demand": demand_text(job.demand), "job": job.demand.job, "project": project_of(state, job.demand)}
    return {"errors": [], "answer": answer, "sentences": sentences, **about}


def _preview(fields: Fields, state: PoolState) -> TaskResult:
    if fields["kind"] != SUBMIT:
        body = KINDS[fields["kind"]].model_validate_json(fields["body"])
        requester = _sender(fields)
        return {**preview(state, requester, body, fields["now"]).to_data()}
    job, faults = _read(fields, state)
    if job is None:
        return {**Preview().to_data(), "errors": _error_rows(faults)}
    return _submission(state, job, fields["now"], _sender(fields))


def _sender(fields: Fields) -> Requester:
    return Requester(**fields["requester"])


def _submission(state: PoolState, job: SubmitJob, now: int, sender: Requester) -> TaskResult:
    answer, sentences = live_plan.predict(at(state, now), job.demand, now, sender)
    victims = answer["decision"]["victims"] if answer["decision"] is not None else []
    rejected = [answer["reason"]] if answer["outcome"] == "rejected" else []
    result: TaskResult = {**Preview([] if rejected else sentences, errors=rejected).to_data()}
    result["affected"] = [{**each, "gpus_text": f"{each['gpus']:g}", "grace_s": 0} for each in victims]
    return result


def _plan_policy(fields: Fields, state: PoolState) -> TaskResult:
    """The differences of this policy from the one in force, and their immediate effects."""
    policy, faults = policy_in(fields["yaml"])
    harmless = {"harms": False, "loses_permissions": False, "rejected": False}
    if policy is None:
        return {"errors": _error_rows(faults), "diff": [], "sentences": [], **harmless}
    diff = changes(state.rules, policy)
    if not diff:
        same = ["It is identical to the policy in force: nothing would change."]
        return {"errors": [], "diff": diff, "sentences": same, **harmless}
    effects = policy_effects(at(state, fields["now"]), policy, enforce=bool(fields.get("enforce")))
    lost = lost_by(state, ApplyPolicy(policy=policy), Requester(**fields["requester"]))
    sentences = [*lost, *effects.sentences(), *new_quota_findings(state, policy)]
    more = len(sentences) - MAX_SENTENCES
    sentences = [*sentences[:MAX_SENTENCES], *([f"And {count_text(more, 'more effect')}."] if more > 0 else [])]
    return {
        "errors": [],
        "diff": diff,
        "sentences": sentences,
        "harms": effects.harms or bool(lost),
        "loses_permissions": bool(lost),
        "rejected": bool(effects.rejected),
    }


def _policy(fields: Fields, _: PoolState) -> TaskResult:
    policy, faults = policy_in(fields["yaml"])
    return {"errors": _error_rows(faults), "policy": None if policy is None or faults else policy.model_dump_json()}


def policy_in(text: str) -> tuple[Policy | None, list[Fault]]:
    """The policy in this YAML, or every fault."""
    try:
        value, lines = parse_untrusted_yaml(text, "")
    except UnreadableFile as error:
        return None, [fault_of(error)]
    policy, faults = policy_from(value)
    return policy, _with_lines(faults, lines)


def _with_lines(faults: Faults, lines: Lines) -> list[Fault]:
    found = (Fault(line_of(lines, place), ".".join(map(str, place)), text) for place, text in faults)
    return sorted(dict.fromkeys(found), key=lambda fault: fault.line)


def _error_rows(faults: Iterable[Fault]) -> list[TaskResult]:
    rows = [{"location": each.field, "detail": each.text, "line": each.line} for each in faults]
    return rows[:MAX_FAULTS]


TASKS: Mapping[str, Callable[[Fields, PoolState], TaskResult]] = {
    "job": _job,
    "plan": _plan,
    "preview": _preview,
    "plan-policy": _plan_policy,
    "policy": _policy,
}
