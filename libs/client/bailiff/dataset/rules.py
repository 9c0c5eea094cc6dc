"""The rules by which datasets treat the fields of records.

Which rule applies to a field, its type says (`bailiff_core.model.privacy`); a field whose type says nothing is omitted.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from bailiff_core.engine import RELEASE
from bailiff_core.fold.outcome import EXIT_0_AFTER_NOTICE
from bailiff_core.model import state
from bailiff_core.model.document import Document
from bailiff_core.model.privacy import PRIVATE, Treatment, treatments
from bailiff_core.placement.islands import NO_ISLAND, PER_TASK
from bailiff_core.protections import RULES
from bailiff_core.records import facts
from bailiff_core.records.payload import Payload

from .pseudonyms import Pseudonyms


@dataclass
class Export:
    """Context of the rules.

    Attributes:
        shift: µs subtracted from every time.
        seqs: New seq by old seq, so far.
        next_seq: The new seq of the current record, if it is exported.
        ages: Ranks of projects by creation.
    """

    names: Pseudonyms
    shift: int
    seqs: list[int] = field(default_factory=list)
    next_seq: int = 0
    ages: dict[int, int] = field(default_factory=dict)

    def time(self, value: int) -> int:
        """The shifted time; 0 means none and is kept."""
        return max(1, value - self.shift) if value else 0

    def seq(self, value: int) -> int:
        """New seq of a record; if it was omitted, of the last one before it."""
        return self.seqs[min(value, len(self.seqs) - 1)] if self.seqs else 0


Rule = Callable[[Any, Export], Any]


def _words(*known: str) -> Rule:
    """Keeps one of these words, else `other`."""
    return lambda value, _export: value if value in known else "other"


def _priority_class(value: str, export: Export) -> str:
    return export.names.class_name(value) if value else ""


def _gpu_model(value: str, export: Export) -> str:
    return export.names.model(value)


def _profile(value: str) -> str:
    """A MIG profile such as `3g.40gb`, without an addition such as `+me`; empty: it is none."""
    found = re.match(r"([1-7]c\.)?[1-7]g\.[0-9]{1,4}gb(?=\+|$)", value)
    return found[0] if found else ""


def _mig_weights(value: dict[str, int], _export: Export) -> dict[str, int]:
    return {_profile(key): weight for key, weight in value.items() if _profile(key)}


def _by_model(value: dict[str, int], export: Export) -> dict[str, int]:
    """By GPU model, group of models or MIG profile; the first of those with one name."""
    found: dict[str, int] = {}
    for key, amount in value.items():
        found.setdefault(_profile(key) or export.names.model(key), amount)
    return found


def _gpu_groups(value: dict[str, Sequence[str]], export: Export) -> dict[str, tuple[str, ...]]:
    """Groups are named as models are, and a model is in one group."""
    found: dict[str, tuple[str, ...]] = {}
    seen: dict[str, None] = {}
    for name, models in value.items():
        mine = [model for model in dict.fromkeys(map(export.names.model, models)) if model not in seen]
        seen.update(dict.fromkeys(mine))
        if mine:
            found[export.names.model(name)] = tuple(mine)
    return found


def _island(value: str, export: Export) -> str:
    return export.names.name("island", value)


def _island_used(value: str, export: Export) -> str:
    """The island that a placement used, with its node, or why none."""
    node, sign, name = value.partition("/")
    if not sign:
        return value if value in (PER_TASK, NO_ISLAND) else ""
    return f"{export.names.name('node', node)}/{export.names.name('island', name)}"


def _labels(value: dict[str, str], export: Export) -> dict[str, str]:
    """Labels: pseudonyms of keys, and of values per key."""
    return {export.names.name("label", key): export.names.name("value", f"{len(key)}:{key}{each}") for key, each in value.items()}


def _age(value: int, export: Export) -> int:
    """Creation of a project: only its rank."""
    return export.ages.setdefault(value, 0)


def _ranges(value: str, _export: Export) -> str:
    """Numbers of tasks or devices, as `0-3,7`."""
    return value if re.fullmatch(r"[0-9,-]*", value) else ""


def _exit_codes(value: dict[str, int], _export: Export) -> dict[str, int]:
    """Exit codes by the number of the task."""
    return {task: code for task, code in value.items() if re.fullmatch(r"[0-9]{1,6}", task)}


def _rounded(value: int, _export: Export) -> int:
    """Rounds up to two significant digits."""
    unit: int = 10 ** max(0, len(str(value)) - 2)
    return -(-value // unit) * unit


def _request(_value: Any, export: Export) -> dict[str, str]:
    """A request id that has only the seq."""
    return {"source": "left-out", "id": f"r{export.next_seq}", "digest": "0" * 64}


def _release(value: str, _export: Export) -> str:
    """A published release, else `other`."""
    return value if value == RELEASE or re.fullmatch(r"\d+\.\d+\.\d+", value) else "other"


PROTECTION_NAMES = tuple(rule.name for rule in RULES)
TREATMENTS: dict[str, Rule] = {
    "public": lambda value, export: of_document(value, export) if isinstance(value, Document) else value,
    "time": lambda value, export: export.time(value),
    "seq": lambda value, export: export.seq(value),
    "priority_class": _priority_class,
    "gpu_model": _gpu_model,
    "device_kind": _words("gpu", "mig"),
    "mig_profile": lambda value, _export: _profile(value),
    "mig_requested": lambda value, _export: _profile(value) or None,
    "mig_weights": _mig_weights,
    "by_model": _by_model,
    "gpu_groups": _gpu_groups,
    "island": _island,
    "island_used": _island_used,
    "labels": _labels,
    "age": _age,
    "ranges": _ranges,
    "exit_codes": _exit_codes,
    "rounded": _rounded,
    "request": _request,
    "release": _release,
    "cause": _words(*get_args(state.EvictionCause), "exit"),
    "outcome_rule": _words(EXIT_0_AFTER_NOTICE, ""),
    "exclusion": _words(*PROTECTION_NAMES, "idle", "preemption-delay", "cap-at-fair-share", "ageing", "schedule-timeout"),
}
"""The rules by the names that types use, besides `private`, `pseudonym` and `placeholder`."""


def of_record(data: Payload, export: Export) -> dict[str, Any] | None:
    """The exported part of a record's data, or None for a type that is private."""
    if data.NOT_PUBLISHED:
        return None
    if isinstance(data, facts.PolicyApplied):
        created = sorted({project.created for project in data.policy.projects})
        export.ages = {moment: place for place, moment in enumerate(created)}
    return of_document(data, export)


def of_document(data: Document, export: Export) -> dict[str, Any]:
    """The exported part of a document. A private text that must be there is empty."""
    found: dict[str, Any] = {}
    for name, treatment in treatments(type(data)).items():
        if name not in data.model_fields_set:
            continue
        if treatment not in (None, PRIVATE):
            found[name] = _treated(getattr(data, name), treatment, export)
        elif type(data).model_fields[name].is_required():
            found[name] = ""
    return found


def _treated(value: Any, treatment: Treatment, export: Export) -> Any:
    if value is None:
        return None
    if isinstance(value, tuple):
        return [_treated(each, treatment, export) for each in value]
    if treatment.rule == "pseudonym":
        return export.names.name(str(treatment.argument), value)
    if treatment.rule == "placeholder":
        return treatment.argument
    return TREATMENTS[treatment.rule](value, export)
