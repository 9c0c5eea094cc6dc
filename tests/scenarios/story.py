"""Plays one scenario: the initial pool, the events, and the expected result."""

from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from rich.console import Console
from tests.kits import notation
from tests.kits.snapshots import snapshot

from bailiff.client.live_plan import refusal_lines
from bailiff.client.plan_files import Source, contradictions
from bailiff.tables.plan import plan_table
from bailiff_core.actions.migrate import migrations
from bailiff_core.fold import close_cycle, enact
from bailiff_core.lifecycle.operator_actions import drains, paused_jobs, requested_evictions
from bailiff_core.lifecycle.termination import broken_attempts, cancelled_jobs, scaled_down
from bailiff_core.model.document import parse_duration
from bailiff_core.plan import ALL_ACTIONS, InvalidSnapshot, Planning, PlanReport, Round
from bailiff_core.plan.advance import apply_followups, exit_task
from bailiff_core.plan.build import append_facts, request, submission
from bailiff_core.plan.report import TaskStatus
from bailiff_core.plan.snapshot_validation import validate_snapshot
from bailiff_core.records import facts

POOL = ("nodes", "projects", "topologies", "policy", "jobs", "now", "reclaimed_at")
OPERATOR_ACTIONS = ("evicts", "pauses", "resumes", "moves", "drains", "undrains")
EVENTS = ("wait", "ends", "fails", "terminated", "cancels", "scales", "arrives", "policy", *OPERATOR_ACTIONS)
CHECKS = (
    "then",
    "counts",
    "free",
    "by",
    "leave",
    "waits",
    "shielded",
    "proven",
    "second",
    "loses",
    "changes",
    "devices",
    "gives_up",
)
STEP = (*EVENTS, "pass", "settle", *CHECKS)
MOST_ROUNDS = 30
GPUS_OF = {"idle": "free"}  # phrases of the stories


class Story:
    """A scenario under way."""

    def __init__(self, scenario: Mapping[str, Any]) -> None:
        self.title = scenario["title"]
        steps = scenario.get("steps")
        known = ("title", "why", "steps", *POOL, *(() if steps is not None else STEP))
        _only(scenario, known, self.title)
        self.steps = steps or [{name: scenario[name] for name in STEP if name in scenario and name != "policy"}]
        self.written = {name: scenario[name] for name in POOL if name in scenario}
        self.planning = self._plan(self.written.get("jobs", {}))
        self.last: Round | None = None

    def play(self) -> None:
        """Each step, with what it must have led to. Raises `AssertionError`."""
        for number, step in enumerate(self.steps, start=1):
            _only(step, STEP, f"step {number}")
            self._happen(step)
            if "pass" in step or "settle" in step or not any(name in step for name in EVENTS):
                self._run(step)
            assert self.last is not None or not any(name in step for name in CHECKS), "nothing has been decided yet"
            faults = [fault for name in CHECKS if name in step for fault in self._check(name, step[name])]
            assert not faults, "\n".join([f"step {number} of {self.title!r}", *faults, "", self._table()])

    def _plan(self, jobs: Mapping[str, Any]) -> Planning:
        try:
            return Planning(self._snapshot(jobs))
        except InvalidSnapshot as error:
            raise contradictions(Source(self.title, ""), error) from None

    def _snapshot(self, jobs: Mapping[str, Any]) -> Any:
        document = {name: value for name, value in self.written.items() if name not in ("nodes", "projects", "jobs")}
        document["nodes"] = notation.nodes(self.written["nodes"])
        if "projects" in self.written:
            document["projects"] = notation.projects(self.written["projects"])
        document["jobs"] = notation.jobs(jobs)
        return snapshot(document, self.title)

    # --- what happens

    def _happen(self, step: Mapping[str, Any]) -> None:
        for name, answer in step.get("terminated", {}).items():
            self._terminate(name, str(answer))
        if self.last is not None and any(name in step for name in EVENTS):
            self.planning.advance(_micros(step.get("wait", "0s")))
        elif "wait" in step:
            append_facts(self.planning.state, facts.ClockAdvanced(), at=self.planning.state.now + _micros(step["wait"]))
        for name in _list(step.get("ends", ())):
            self._end(name, 0)
        for name in _list(step.get("fails", ())):
            self._end(name, 1)
        for name in _list(step.get("cancels", ())):
            self._facts(facts.JobCancelled(request=request(f"cancel {name}"), job=name))
        for name, tasks in step.get("scales", {}).items():
            self._facts(facts.JobScaled(request=request(f"scale {name} {tasks}"), job=name, tasks=tasks))
            size = self.planning.state.jobs[name].size
            self.planning.names[name] = [f"{name}-{index}" for index in range(size)]
        for word in OPERATOR_ACTIONS:
            self._operator_action(word, step.get(word))
        if any(word in step for word in OPERATOR_ACTIONS):
            self.planning.advance()  # the evicted tasks are released
        if "arrives" in step:
            for job in validate_snapshot(self._snapshot(step["arrives"])).jobs:
                append_facts(self.planning.state, submission(job))
                self.planning.names[job.doc.name] = [f"{job.doc.name}-{index}" for index in range(len(job.tasks))]
        if "policy" in step:
            self.written["policy"] = step["policy"]
            self.planning.policy = validate_snapshot(self._snapshot(self.written.get("jobs", {}))).policy
            append_facts(self.planning.state, facts.PolicyApplied(policy=self.planning.policy))

    def _operator_action(self, word: str, given_value: Any) -> None:
        jobs = {"evicts": facts.JobEvictionRequested, "pauses": facts.JobPaused, "resumes": facts.JobResumed}
        for name in _list(given_value or ()) if word in jobs else ():
            self._facts(jobs[word](request=request(f"{word} {name}"), job=name))
        for job, node in given_value.items() if word == "moves" and given_value else ():
            where = None if node == "anywhere" else node
            self._facts(facts.JobMigrationRequested(request=request(f"move {job}"), job=job, node=where))
        for node, how in given_value.items() if word == "drains" and given_value else ():
            mode, _, within = how.partition(" within ")
            asked = {"request": request(f"drain {node}"), "node": node, "mode": mode, "deadline": within or None}
            self._facts(facts.NodeDrained.model_validate(asked))
        for node in _list(given_value or ()) if word == "undrains" else ():
            self._facts(facts.NodeUndrained(request=request(f"undrain {node}"), node=node))

    def _terminate(self, name: str, answer: str) -> None:
        """The job, which is being evicted, answers TERM with an exit code; `0 done`: that is its end, as with on_term finish."""
        state, job = self.planning.state, self.planning.state.jobs[name]
        code, _, done = answer.partition(" ")
        for task in [task for task in job.tasks if (task.eviction or job.eviction) is not None]:
            at = {"job": name, "attempt": job.attempt, "task": task.index, "node": state.nodes[task.node].name}
            told = facts.EvictionStageReached.model_validate({**at, "stage": "term_sent"})
            exited = facts.TaskExited.model_validate({**at, "exit_code": int(code), "done": bool(done)})
            append_facts(state, told, exited, facts.TaskReleased.model_validate(at), close=False)
        apply_followups(state)
        close_cycle(state)

    def _end(self, name: str, code: int) -> None:
        job = self.planning.state.jobs[name]
        for task in job.tasks:
            exit_task(self.planning.state, job, task, code)
        apply_followups(self.planning.state)
        close_cycle(self.planning.state)

    def _facts(self, fact: Any) -> None:
        state = self.planning.state
        append_facts(state, fact, close=False)
        for rule in (cancelled_jobs, broken_attempts, scaled_down, paused_jobs, requested_evictions, drains, migrations):
            for decision in rule(state):
                enact(state, decision)
        apply_followups(state)
        close_cycle(state)

    def _run(self, step: Mapping[str, Any]) -> None:
        actions = _actions(step.get("pass", step.get("settle", "all")))
        self.last = self.planning.round(actions)
        while "settle" in step and self.last.changed:
            assert len(self.planning.rounds) < MOST_ROUNDS, f"it does not settle within {MOST_ROUNDS} rounds\n{self._table()}"
            self.last = self.planning.round(actions)

    def _table(self) -> str:
        console = Console(width=160, file=StringIO())
        console.print(plan_table(PlanReport(actions=ALL_ACTIONS, rounds=tuple(self.planning.rounds[-3:]), converged=False)))
        return console.file.getvalue()

    # --- what came of it

    def _check(self, name: str, wanted: Any) -> list[str]:
        assert self.last is not None
        return list(getattr(self, f"_{name}")(wanted, self.last))

    def _then(self, wanted: Mapping[str, str], last: Round) -> list[str]:
        faults = []
        for job, given_value in wanted.items():
            after = [line.after for line in last.tasks if line.job == job]
            if not after:
                faults.append(f"{job}: there is no such job")
            elif (fault := _mismatch(after, notation.expected(given_value))) is not None:
                faults.append(f"{job}: expected {given_value!r}, {fault}; it is {_status_text(after)}")
        return faults

    def _counts(self, wanted: Mapping[str, int], last: Round) -> list[str]:
        found = last.counts.model_dump()
        return [f"{name}: expected {count}, found {found[name]}" for name, count in wanted.items() if found[name] != count]

    def _free(self, wanted: Mapping[str, str], last: Round) -> list[str]:
        faults = []
        nodes = {line.node: line for line in last.nodes}
        for node, given_value in wanted.items():
            for phrase in given_value.split(","):
                amount, word = phrase.split()
                found = getattr(nodes[node], f"gpus_{GPUS_OF.get(word, word)}")
                if found != float(amount):
                    faults.append(f"{node}: expected {phrase.strip()} GPUs, found {found:g}")
        return faults

    def _by(self, wanted: Mapping[str, str], last: Round) -> list[str]:
        actions = {line.job: line.action for line in last.decisions}
        return [
            f"{job}: expected by {action}, found {actions.get(job)}"
            for job, action in wanted.items()
            if actions.get(job) != action
        ]

    def _leave(self, wanted: Mapping[str, Any], last: Round) -> list[str]:
        faults = []
        for job, given_value in wanted.items():
            victims = sorted({victim["job"] for line in last.decisions if line.job == job for victim in line.victims})
            if victims != sorted(_list(given_value)):
                faults.append(f"for {job}: expected that {_list(given_value) or 'nobody'} leave, found {victims or 'nobody'}")
        return faults

    def _waits(self, wanted: Mapping[str, str], last: Round) -> list[str]:
        lines = {line.job: "; ".join([line.reason, *refusal_lines(line)]) for line in last.pending}
        return [
            f"{job}: expected that it waits, and a reason with {given_value!r}; found {lines.get(job, 'that it does not wait')!r}"
            for job, given_value in wanted.items()
            if given_value not in lines.get(job, "\0")
        ]

    def _devices(self, wanted: Mapping[str, Any], last: Round) -> list[str]:
        """GPUs by id, of all tasks of the job, in task order."""
        faults = []
        for job, given_value in wanted.items():
            found = [device for line in last.tasks if line.job == job for device in line.after.devices]
            if found != _list(str(given_value)):
                faults.append(f"{job}: expected devices {given_value}, found {' '.join(found) or 'none'}")
        return faults

    def _gives_up(self, wanted: Mapping[str, bool], last: Round) -> list[str]:
        """Whether the search ended before it had looked at everything, for jobs that wait."""
        found = {line.job: line.gave_up for line in last.pending}
        return [
            f"{job}: expected gave_up {given_value}, found {found.get(job)}"
            for job, given_value in wanted.items()
            if found.get(job) != given_value
        ]

    def _shielded(self, wanted: Mapping[str, Any], last: Round) -> list[str]:
        faults = []
        for job, rules in wanted.items():
            why = [line.explanation for line in last.decisions if line.job == job and line.explanation is not None]
            tried = [attempt for line in last.pending if line.job == job for attempt in line.attempted_actions]
            found = sorted({group.rule for each in (*why, *tried) for group in each.excluded})
            faults += [f"{job}: expected that {rule} shields jobs, found {found}" for rule in _list(rules) if rule not in found]
        return faults

    def _proven(self, wanted: Any, last: Round) -> list[str]:
        """Jobs for which there is a proof; or by job, whether there is one."""
        found = {line.job: line.explanation.proven for line in last.decisions if line.explanation is not None}
        wanted_jobs = wanted if isinstance(wanted, Mapping) else dict.fromkeys(_list(wanted), True)
        return [
            f"{job}: expected {'a' if given_value else 'no'} proof that no cheaper set of victims exists"
            for job, given_value in wanted_jobs.items()
            if found.get(job) is not given_value
        ]

    def _second(self, wanted: Mapping[str, Any], last: Round) -> list[str]:
        found = {line.job: sorted(line.explanation.runner_up) for line in last.decisions if line.explanation is not None}
        wanted_jobs = {job: sorted(_list(given_value)) for job, given_value in wanted.items()}
        return [
            f"{job}: next best {found.get(job)}, expected {given_value}"
            for job, given_value in wanted_jobs.items()
            if found.get(job) != given_value
        ]

    def _loses(self, wanted: Mapping[str, float], last: Round) -> list[str]:
        found = {
            line.job: sum(victim["work_lost_gpu_ms"] + victim["restart_gpu_ms"] for victim in line.victims) / 1000
            for line in last.decisions
        }
        return [
            f"{job}: expected {given_value:g} GPU-seconds lost, found {found.get(job)}"
            for job, given_value in wanted.items()
            if found.get(job) != given_value
        ]

    def _changes(self, wanted: str, last: Round) -> list[str]:
        assert wanted == "nothing", "changes: nothing"
        return ["expected that nothing changes"] if last.changed else []


def _mismatch(after: list[TaskStatus], wanted: list[tuple[int | None, str, list[str]]]) -> str | None:
    named = sum(count if count is not None else len(after) for count, _, _ in wanted)
    if named != len(after):
        return f"which speaks of {named} tasks of {len(after)}"
    for count, state, nodes in wanted:
        places = sorted(task.node or "" for task in after if task.state == state)
        if len(places) != (len(after) if count is None else count):
            return f"found {len(places)} {state}"
        if nodes and not _stand_on(places, nodes):
            return f"found them on {' '.join(places)}"
    return None


def _stand_on(places: list[str], nodes: list[str]) -> bool:
    """One name per task, or fewer names than tasks for "on these and no others"; `n1|n2`: any of them."""
    if len(nodes) == 1:
        return all(place in nodes[0].split("|") for place in places)
    return places == sorted(nodes) if len(nodes) == len(places) else sorted(set(places)) == sorted(nodes)


def _status_text(after: Sequence[TaskStatus]) -> str:
    texts = [f"{task.state}{f' on {task.node}' if task.node else ''}" for task in after]
    return ", ".join(f"{texts.count(each)} {each}" for each in dict.fromkeys(texts))


def _actions(given_value: Any) -> Any:
    names = ALL_ACTIONS if given_value in ("all", None, True) else tuple(each.strip() for each in str(given_value).split(","))
    unknown = [name for name in names if name not in ALL_ACTIONS]
    assert not unknown, f"no action {unknown[0]!r}; there are {', '.join(ALL_ACTIONS)}"
    return names


def _list(given_value: Any) -> list[str]:
    return given_value.split() if isinstance(given_value, str) else list(given_value)


def _micros(given_value: Any) -> int:
    found = parse_duration(given_value)
    assert isinstance(found, int)
    return found


def _only(given: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    unknown = [name for name in given if name not in known]
    assert not unknown, f"{where}: no such field {unknown[0]!r}; there are {', '.join(known)}"
    cut = [
        name for value in given.values() if isinstance(value, dict) for name, given_value in value.items() if given_value is None
    ]
    assert not cut, f"{where}: nothing is said of {cut[0]!r}; inside braces, quote a text that has commas"
