"""What does not add up in the quotas of a policy, and what follows for projects that state none. None of it is an error."""

from collections.abc import Iterator
from typing import NamedTuple

from bailiff.render.serializers.projects import capacity_of
from bailiff_core.humanize import gpus_text, memory_text, thousandths_text
from bailiff_core.model.gpu_kinds import FIRST
from bailiff_core.model.policy import Policy
from bailiff_core.model.project_tree import ROOT, ProjectTree
from bailiff_core.model.resource_vector import UNLIMITED, Amount, ResourceVector
from bailiff_core.model.state import PoolState
from bailiff_core.quota.quotas_in_full import quotas_in_full

NAMES = ("GPU", "CPU", "memory")
OPTIONS = ("--gpus N", "--cpu N", "--memory N")
IN_THE_POLICY = "in the policy, under models"
NO_BOUND = "no bound, as of the GPUs"


class PolicyFinding(NamedTuple):
    """A finding, with advice in case it is not intended."""

    found: str
    advice: str

    @property
    def text(self) -> str:
        """Both, without a full stop."""
        return f"{self.found}; {self.advice}"


def quota_findings(policy: Policy, capacity: ResourceVector | None = None) -> Iterator[PolicyFinding]:
    """Limits below quotas, children that exceed their parent, quotas that exceed the pool, and GPU models that it has not.

    Args:
        capacity: Of the pool; `None`: not known.
    """
    tree = ProjectTree(policy.projects)
    names = [*NAMES, *tree.kinds]
    if capacity is not None and capacity.gpu_milli:
        for at, kind in enumerate(tree.kinds, start=FIRST):
            if not capacity.amount(at):
                text = f"quotas or limits name {kind}, of which the pool has no device"
                yield PolicyFinding(text, "name GPU models as nodes announce them: bailiff node list -o wide")
    for name, branch in tree.branches.items():
        for at, (quota, limit) in enumerate(zip(branch.quota, branch.limit, strict=False)):
            unbounded = quota == UNLIMITED and at not in branch.unstated
            if limit != UNLIMITED and (quota > limit or unbounded):
                amounts = f"{_text(at, limit)} of {'no bound' if unbounded else _text(at, quota)}"
                text = f"project {name} has a {names[at]} limit below its quota: it can use {amounts}"
                yield PolicyFinding(text, "raise the limit, or lower the quota")
    for parent, children in tree.children.items():
        for at in range(len(names)):
            stated = sum(max(0, tree.branches[child].quota[at]) for child in children)
            if parent == ROOT:
                if capacity is not None and 0 < capacity.amount(at) < stated:
                    of_kind = f" of {names[at]}" if at >= FIRST else ""
                    text = f"quotas{of_kind} add up to {_text(at, stated)}, the pool has {_text(at, capacity.amount(at))}"
                    yield PolicyFinding(
                        f"{text}: they cannot all be satisfied at once, and shrink in proportion where all is asked for",
                        f"lower them: bailiff project list, {_change('NAME', at)}",
                    )
            elif 0 <= tree.branches[parent].quota[at] < stated:
                own = _text(at, tree.branches[parent].quota[at])
                of_kind = f" of {names[at]}" if at >= FIRST else ""
                text = f"quotas{of_kind} below {parent} add up to {_text(at, stated)}; its own quota is {own}"
                yield PolicyFinding(text, f"raise it or lower theirs: {_change(parent, at)}")


def _change(project: str, at: int) -> str:
    """How to change a quota."""
    return f"bailiff project update {project} {OPTIONS[at]}" if at < FIRST else IN_THE_POLICY


def new_quota_findings(state: PoolState, policy: Policy) -> list[str]:
    """What would not add up under this policy and does under the one in force, if any is, as sentences with advice."""
    capacity = capacity_of(state, policy)
    known = dict.fromkeys(quota_findings(state.policy, capacity)) if state.policy is not None else {}
    return [f"{each.text}." for each in quota_findings(policy, capacity) if each not in known]


def unstated_quotas(policy: Policy, capacity: ResourceVector | None = None) -> list[str]:
    """Of each project that states no quota of CPUs or memory, what it has.

    Args:
        capacity: Of the pool; `None`: not known.
    """
    tree = ProjectTree(policy.projects)
    full = {} if capacity is None else quotas_in_full(tree, capacity, capacity.gpu_milli)
    found = []
    for name, branch in tree.branches.items():
        places = [at for at in branch.unstated if 0 < at < FIRST]
        if places:
            names = " and ".join(NAMES[at] for at in places)
            has = _part(branch.quota.gpu_milli, None if capacity is None else capacity.gpu_milli)
            amounts = ", ".join(_text(at, full[name][at]) for at in places) if name in full and has != NO_BOUND else ""
            found.append(f"project {name} states no quota of {names}: {has}{amounts and f' ({amounts})'}")
    return found


def _part(gpus: Amount, of_pool: Amount | None) -> str:
    """What a project has by its quota of GPUs. of_pool: the pool's GPUs; `None`: not known."""
    if of_pool == 0:
        return "an equal part by weight, as the pool has no GPUs"
    if gpus == UNLIMITED:
        return NO_BOUND
    by_gpus = f"as large a part of the pool's as {gpus_text(int(gpus))} are of its GPUs"
    return by_gpus if of_pool else f"{by_gpus}; in a pool without GPUs an equal part by weight"


def _text(at: int, amount: Amount) -> str:
    if amount == UNLIMITED:
        return "no bound"
    return (gpus_text, lambda milli: f"{thousandths_text(milli)} CPUs", memory_text)[at if at < FIRST else 0](int(amount))
