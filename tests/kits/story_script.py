"""Stories as text: a sentence, and below it what happens and what is decided. Every cycle is checked, and the log is replayed.

    test_cancel = stories('''
    given a full node
        node n1: 8 gpus; runs low: 8 gpus

    cancelled while its selection is open
        a full node; submit job: interactive, 8 gpus
        cancel job; => JobEnded job outcome=cancelled; low is running
    ''')

A command is a method of `Story` (tests/kits/log_builder.py) with its arguments as words, or one of these:

    rules {…}                     the policy of the story, as changes of the default one; always first
    node n1: 8 gpus, sick 3       joins; also `4 cpus`, `8 GiB`, `at most 3 tasks`, `missing 0 2`, `boot 2`, `rack=r1`
    submit a: 2 x 4 gpus, min 1   phrases of tests/scenarios/README.md, or any field of a demand: `max_failures 3`
    submit a: 1 gpu & b: 1 gpu    both in one cycle
    +5m                           the next command happens so much later
    tick, clock steps 1h          time passes and nothing else; the clock is set
    stage a noticed task=1        a stage of an eviction
    report TaskExited a task=1 exit_code=1    any other fact about a task of its present attempt; several with `&` in one cycle
    fact JobPaused job=a          any other fact, with a request of its own where it needs one
    joins n1 8xH100-80GB/nvlink4  a node with the GPUs of a simulated machine; `joins n1 2xH100-80GB boot=3`
    enforce a: limit 4            another policy, enforced: of a project, or `enforce {…}`; likewise `policy`, without enforcement
    compute, deliver              a proposal that is computed now and arrives later; `propose nothing`, `propose first`: a part
    propose all                   until no selection is open
    as eve                        sends the requests from here on, and whoever submits owns the job; `as nobody`

    => Kind a field=value         decided in the last cycle (`field~text`: it contains that); `=> only Kind Kind`, `=> nothing`
    decided Kind: a b             all decisions of this kind so far, by job
    a is running                  the phase of a job
    a.tasks.0.step = 3            any value of a job, a node (`n1.drain = none`) or the state (`queue = a b`)
    a.running = 0 1               indices of its tasks in this state; `a.members`: all of them; `a.gpus`: the ids of its GPUs
    wake = now + 5s               when something is due; `!=` for anything else
    says a Why is: "text" "text"  each is in a sentence of its explanation, below the question that begins so; `says a: "text"`
                                  below any; a line that begins with a text goes on with these; `omits`: they are nowhere there

A field may be a path (`placement.0.devices=0-3`), or one of all entries (`victims.*.job="a b"`). Behind `#` is a remark.
"""

import re
import shlex
from collections.abc import Callable
from textwrap import dedent
from typing import Any, get_args

import pytest
import yaml
from tests.kits import mig, notation
from tests.kits.claims import complete
from tests.kits.core_invariants import check_pool
from tests.kits.explained import explained
from tests.kits.log_builder import DAY, GIB, HOUR, MINUTE, MS, SECOND, Story, policy

from bailiff_core.decision_cycle import wake_at
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.policy import Policy
from bailiff_core.model.state import TaskState
from bailiff_core.records import facts

UNITS = {"us": 1, "ms": MS, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}
WORDS = {"none": None, "true": True, "false": False, "nothing": ()}
NODE: list[notation.Phrase] = [
    (r"([0-9]+) gpus?", notation.sets(gpus=notation.number(1))),
    (r"([0-9]+) cpus?", notation.sets(cpu=notation.number(1))),
    (r"([0-9]+) GiB", notation.sets(gib=notation.number(1))),
    (r"at most ([0-9]+) tasks?", notation.sets(slots=notation.number(1))),
    (r"(sick|missing) ([0-9 ]+)", lambda match, fields: fields.__setitem__(match[1], [int(each) for each in match[2].split()])),
    (r"boot ([0-9]+)", notation.sets(boot=notation.number(1))),
    notation.LABEL,
]
FIELD: notation.Phrase = (r"([a-z_]+) ([-A-Za-z0-9]+)", lambda match, fields: fields.__setitem__(match[1], value(match[2])))
SAME = {"gpu_devices": "gpu_devices", "mig": "mig_profile", "order": "order"}
SEPARATOR = re.compile(r';(?=(?:[^"]*"[^"]*")*[^"]*$)')  # outside of texts
CHECKED: set[str] = set()  # logs after which the invariants were checked already, of stories that begin alike
OF_GROUP = {"gpus": ("gpu_milli", 1000), "cpus": ("cpu_milli", 1000), "fraction": ("gpu_share_milli", 1000)}


def stories(text: str) -> Callable[[str], None]:
    """A test with each of the stories as a parameter."""
    told = _parsed(text)
    macros = {title.removeprefix("given "): body for title, body in told.items() if title.startswith("given ")}
    titles = [title for title in told if not title.startswith("given ")]

    @pytest.mark.parametrize("sentence", titles)
    def test(sentence: str) -> None:
        Script(macros).play(told[sentence])

    return test


def play(*commands: str, given: str = "", story: Story | None = None) -> Story:
    """The story that these commands tell. given: beginnings, as in `stories`. story: the one to go on with."""
    script = Script({title.removeprefix("given "): body for title, body in _parsed(given).items()})
    script.story = story
    script.play([each.strip() for command in commands for each in SEPARATOR.split(command) if each.strip()])
    assert script.story is not None
    return script.story


def _parsed(text: str) -> dict[str, list[str]]:
    told: dict[str, list[str]] = {}
    for line in filter(str.strip, dedent(text).splitlines()):
        line = line.partition("  # ")[0]
        if line[0] != " ":
            assert line not in told, f"there are two stories {line!r}"
            told[line] = []
        else:
            commands = [command.strip() for command in SEPARATOR.split(line) if command.strip()]
            if commands and commands[0].startswith('"'):
                told[list(told)[-1]][-1] += f" {commands.pop(0)}"
            told[list(told)[-1]] += commands
    return told


def value(text: str) -> Any:
    """A number, a duration in microseconds, one of `WORDS`, a list in brackets, or the text."""
    if duration := re.fullmatch(r"(\d+)(us|ms|s|m|h|d)", text):
        return int(duration[1]) * UNITS[duration[2]]
    if text[:1] in "[{" and text:
        return yaml.safe_load(text)
    return int(text) if re.fullmatch(r"-?\d+", text) else WORDS.get(text, text)


class Script:
    """A story that commands tell."""

    def __init__(self, macros: dict[str, list[str]]) -> None:
        self.macros = macros
        self.story: Story | None = None

    def play(self, commands: list[str]) -> None:
        """All commands, with the log replayed at the end."""
        for command in commands:
            try:
                self._run(command)
            except Exception as error:
                error.add_note(f"in {command!r}")
                raise
        assert self.story is not None
        self.story.holds()

    def _run(self, command: str) -> None:
        verb, _, rest = command.partition(" ")
        if command in self.macros:
            for each in self.macros[command]:
                self._run(each)
            return
        if self.story is None:
            rules = policy(**yaml.safe_load(rest)) if verb == "rules" else policy()
            self.story = Story(rules, check=check_pool, checked=CHECKED)
            if verb == "rules":
                return
        if verb == "=>":
            self._expect(rest)
        elif verb.startswith("+"):
            self.story.time += value(verb[1:])
        elif hasattr(self, f"_{verb}"):
            getattr(self, f"_{verb}")(self.story, rest)
        elif " = " in command or " != " in command:
            path, sign, wanted = re.split(r" (!?=) ", command, maxsplit=1)
            found = self._find(path)
            if relative := re.fullmatch(r"now(?: ([-+]) (\S+))?", wanted):
                wanted = str(self.story.time + (int(f"{relative[1]}1") * value(relative[2]) if relative[1] else 0))
            assert _equal(found, wanted) is (sign == "="), f"{path} is {found!r}"
        elif match := re.fullmatch(r"(\S+) is (\S+)", command):
            found = self.story.job(match[1]).phase
            assert found == match[2], f"{match[1]} is {found}"
        else:
            words, named = _arguments(rest)
            getattr(self.story, verb)(*words, **named)

    # --- commands

    def _node(self, story: Story, rest: str) -> None:
        name, _, about = rest.partition(":")
        story.node(name.strip(), **notation.phrases(about, NODE, f"node {name}"))

    def _submit(self, story: Story, rest: str) -> None:
        story.cycle(*(self._submission(story, each) for each in rest.split("&")))

    def _runs(self, story: Story, rest: str) -> None:
        self._submit(story, rest)
        job = rest.partition(":")[0].strip()
        story.expect("JobPlaced", job=job, reserved=False)
        story.started(job)
        assert story.job(job).phase == "running"

    def _submission(self, story: Story, text: str) -> facts.JobSubmitted:
        name, _, about = text.partition(":")
        groups, of_job = [], {}
        for part in about.split("|"):
            fields = notation.phrases(part, [*notation.JOB, FIELD], f"job {name}")
            of_group = {
                "count": fields.pop("tasks", 1),
                "gpu_models": tuple(filter(None, [fields.pop("gpu_models", None)])),
                "nodes": tuple(fields.pop("nodes", ())),
                **{known: int(fields.pop(given) * times) for given, (known, times) in OF_GROUP.items() if given in fields},
                **{known: fields.pop(given) for given, known in SAME.items() if given in fields},
            }
            if "gpu_memory" in fields:
                of_group["gpu_share_bytes"] = int(fields.pop("gpu_memory").removesuffix("GiB")) * GIB
            if 0 < of_group.get("gpu_milli", 0) < 1000:
                of_group["gpu_share_milli"] = of_group.pop("gpu_milli")
            groups.append(TaskGroup.model_validate(of_group))
            of_job |= fields
        fact = story.submitted(name.strip(), *groups, cls=of_job.pop("class", None), **of_job)
        return fact.model_copy(update={"user": story.actor, "user_verified": True}) if story.actor else fact

    def _as(self, story: Story, who: str) -> None:
        story.actor = "" if who == "nobody" else who

    def _tick(self, story: Story, _: str) -> None:
        story.cycle(facts.ClockAdvanced())

    def _clock(self, story: Story, rest: str) -> None:
        jump = value(rest.removeprefix("steps "))
        story.cycle(facts.ClockStepped(jump=jump), after=jump)

    def _stage(self, story: Story, rest: str) -> None:
        (job, name), about = _arguments(rest)
        fact = {**story.at(job, about.pop("task", 0)), "stage": name, **about}
        story.cycle(facts.EvictionStageReached.model_validate(fact))

    def _report(self, story: Story, rest: str) -> None:
        reports = []
        for each in rest.split("&"):
            (kind, job), about = _arguments(each)
            reports.append(getattr(facts, kind).model_validate({**story.at(job, about.pop("task", 0)), **about}))
        story.cycle(*reports)

    def _fact(self, story: Story, rest: str) -> None:
        given = []
        for each in rest.split("&"):
            (name,), about = _arguments(each)
            kind = getattr(facts, name)
            needed = {"request": story.request()} if "request" in kind.model_fields else {}
            given.append(kind.model_validate({**needed, **about}))
        story.cycle(*given)

    def _policy(self, story: Story, rest: str) -> None:
        story.apply_policy(self._changed(story, rest))

    def _enforce(self, story: Story, rest: str) -> None:
        rules = complete(self._changed(story, rest))
        story.cycle(facts.PolicyApplied(policy=rules, request=story.request(), enforce=True))

    def _changed(self, story: Story, rest: str) -> Policy:
        """The default policy with these changes, or the present one with other bounds of a project."""
        if rest[:1] == "{":
            return policy(**yaml.safe_load(rest))
        name, _, bounds = rest.partition(":")
        document = story.state.rules.model_dump(mode="json")
        (project,) = (each for each in document["projects"] if each["name"] == name)
        project |= notation.phrases(bounds, notation.PROJECT, f"project {name}")
        return Policy.model_validate(document, strict=False)

    def _joins(self, story: Story, rest: str) -> None:
        words, about = _arguments(rest)
        mig.joins(story, *words, **about)

    def _vanished(self, story: Story, rest: str) -> None:
        (job, *tasks), _ = _arguments(rest)
        story.cycle(*(facts.TaskVanished(**story.at(job, task)) for task in tasks))

    def _compute(self, story: Story, _: str) -> None:
        self.computed = story.proposal()

    def _deliver(self, story: Story, _: str) -> None:
        story.cycle(self.computed)

    def _propose(self, story: Story, rest: str) -> None:
        if rest == "all":
            story.propose_all()
            return
        chosen = story.proposal().proposals[:1] if rest == "first" else {"": None, "nothing": []}[rest]
        story.propose(proposals=chosen)

    # --- what came of it

    def _expect(self, rest: str) -> None:
        assert self.story is not None
        kind, *words = shlex.split(rest)
        if kind in ("only", "nothing"):
            self.story.expect_only(*words)
            return
        wanted = [re.fullmatch(r"([\w.*]+)([=~])(.*)", word) or re.fullmatch("()()(.*)", word) for word in words]
        for found in self.story.last_decisions:
            if type(found).__name__ == kind and all(
                match and _holds(found, match[1] or "job", match[2], match[3]) for match in wanted
            ):
                return
        listing = "\n  ".join(map(repr, self.story.last_decisions)) or "nothing"
        raise AssertionError(f"expected {rest}; decided:\n  {listing}")

    def _says(self, story: Story, rest: str) -> None:
        texts, parts = _told(story, rest)
        for part in parts:
            assert any(part in text for text in texts), f"{part!r} is not in {texts}"

    def _omits(self, story: Story, rest: str) -> None:
        texts, parts = _told(story, rest)
        for part in parts:
            assert not any(part in text for text in texts), f"{part!r} is in {texts}"

    def _decided(self, story: Story, rest: str) -> None:
        kind, _, jobs = rest.partition(":")
        found = [getattr(decision, "job", "") for decision in story.decisions(kind)]
        assert found == jobs.split(), found

    def _find(self, path: str) -> Any:
        assert self.story is not None
        state = self.story.state
        first, *names = path.split(".")
        if path == "wake":
            return wake_at(state)
        if first not in state.jobs:
            node = state.node_numbers.get(first)
            return _at(state if node is None else state.nodes[node], path if node is None else ".".join(names))
        job = state.jobs[first]
        if names == ["gpus"]:
            return mig.on(self.story, first)
        if names[0] in ("members", *get_args(TaskState)):
            return [task.index for task in job.tasks if names[0] in ("members", task.state)]
        return _at(job, ".".join(names))


def _told(story: Story, rest: str) -> tuple[list[str], list[str]]:
    """The sentences about a job, below the question that begins so or below any, and the parts that are looked for."""
    about, parts = re.split(r":(?= |$)", rest, maxsplit=1)
    job, _, question = about.partition(" ")
    told = {key: texts for key, texts in explained(story, job).items() if key.startswith(question)}
    assert told, f"there is no {question!r}"
    assert len(told) == 1 or not question, f"{question!r} are {[*told]}"
    return [text for key, texts in told.items() for text in (*texts, *([] if question else [key]))], shlex.split(parts)


def _holds(decision: Any, path: str, sign: str, wanted: str) -> bool:
    found = _at(decision, path)
    return wanted in found if sign == "~" else _equal(found, wanted)


def _at(found: Any, path: str) -> Any:
    """What is there; with `*`, of each entry."""
    first, star, rest = path.partition(".*.")
    for name in first.split("."):
        if isinstance(found, (list, tuple)) or (isinstance(found, dict) and name not in found):
            found = found[int(name)]
        else:
            found = found[name] if isinstance(found, dict) else getattr(found, name)
    return [_at(each, rest) for each in (found.values() if isinstance(found, dict) else found)] if star else found


def _equal(found: Any, wanted: str) -> bool:
    """A text equals itself (`-`: the empty one), a list or the names of a mapping its words, anything else its value."""
    if isinstance(found, str):
        return found == ("" if wanted == "-" else wanted)
    if isinstance(found, (list, tuple, dict)) and wanted[:1] not in ("[", "{"):
        words = [] if wanted == "nothing" else wanted.split()
        return len(words) == len(found) and all(map(_equal, found, words))
    return bool(found == value(wanted))


def _arguments(text: str) -> tuple[list[Any], dict[str, Any]]:
    words = shlex.split(text)
    named = dict(word.split("=", 1) for word in words if re.match(r"[a-z_]+=", word))
    return [_fixed(value(word)) for word in words if not re.match(r"[a-z_]+=", word)], {
        name: _fixed(value(text)) for name, text in named.items()
    }


def _fixed(found: Any) -> Any:
    return tuple(found) if isinstance(found, list) else found
