"""A participant that lies, next to crashes and network faults: forged, replayed, reordered and extreme messages.

In a pool with a root key, one role at a time: somebody without a key, a node, victim selection, the executor, the auditor, a
witness, the roll-up, a person. Nothing runs that admission did not order, no GPU is given twice, each lie leaves a trace, and
once the stolen key is revoked every job ends. Not the writer of the log, whose decisions are replayed instead.

A seed that fails prints its shrunk trace; `python -m tests.simulation SEED --adversary --shrink` reproduces it.
"""

from collections.abc import Callable
from typing import Any

import pytest

from bailiff_admission import input_decoder
from bailiff_admission.request_handlers.enrolment import CheckedReport
from bailiff_node_agent.agent import Agent
from bailiff_node_agent.command_trust import CommandTrust

from .liar import ROLES
from .plan import Plan, plan_with_adversary
from .shrink import run_short
from .test_simulation import SHRINK_S
from .world import run

FEW, MANY, STEP = 2 * len(ROLES), 2_000, 50
"""How many seeds every run tries, two of each role; and how many `make test-long`."""
FAILED_BEFORE = (614, 713, 1218)

Sabotage = Callable[[pytest.MonkeyPatch], None]


def _hold(seeds: range) -> None:
    for seed in seeds:
        outcome = run_short(plan_with_adversary(seed), SHRINK_S)
        assert outcome.violation is None, outcome.story(last=150)


@pytest.mark.parametrize("seed", range(FEW))
def test_every_lie_is_refused_or_found_and_the_pool_continues(seed: int) -> None:
    _hold(range(seed, seed + 1))


@pytest.mark.parametrize("seed", FAILED_BEFORE)
def test_a_seed_that_failed_before_holds(seed: int) -> None:
    _hold(range(seed, seed + 1))


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(FEW, MANY, STEP))
def test_every_lie_is_refused_or_found_in_many_more_runs(first: int) -> None:
    _hold(range(first, min(first + STEP, MANY)))


def agents_trust_everybody(patch: pytest.MonkeyPatch) -> None:
    """Agents do not check who has signed a command."""
    patch.setattr(CommandTrust, "check", lambda *_: None)


def reports_count_whoever_sent_them(patch: pytest.MonkeyPatch) -> None:
    """Admission does not check the key of a report."""
    patch.setattr(input_decoder, "check_report_sender", lambda *_: CheckedReport(counts=True))


def proposals_count_whoever_sent_them(patch: pytest.MonkeyPatch) -> None:
    """Admission does not check who proposes and who starts evictions."""
    patch.setattr(input_decoder, "check_sender", lambda *_: None)


def positions_beyond_the_log_are_obeyed(patch: pytest.MonkeyPatch) -> None:
    """Agents believe the executor whatever record it names."""
    patch.setattr(Agent, "_is_beyond_log", lambda *_: False)


@pytest.mark.parametrize(
    ("sabotage", "role", "known"),
    [
        (agents_trust_everybody, "stranger", 0),
        (reports_count_whoever_sent_them, "stranger", 0),
        pytest.param(proposals_count_whoever_sent_them, "auditor", 844, marks=pytest.mark.long),
        pytest.param(positions_beyond_the_log_are_obeyed, "executor", 0, marks=pytest.mark.long),
    ],
)
def test_a_check_that_is_left_out_is_noticed(sabotage: Sabotage, role: str, known: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """known: a seed from which on it does not take long."""
    sabotage(monkeypatch)
    first = known - known % len(ROLES) + ROLES.index(role)
    plans = (plan_with_adversary(seed) for seed in range(first, first + 400, len(ROLES)))
    found = next((violation for plan in plans if (violation := run(plan).violation) is not None), None)
    assert found is not None, f"{sabotage.__name__} was not noticed"
    print(sabotage.__name__, found)


def test_each_role_lies_about_everything_that_its_key_is_for() -> None:
    plans: list[Plan] = [plan_with_adversary(seed) for seed in range(STEP)]
    sent: dict[str, set[Any]] = {}
    for plan in plans:
        sent.setdefault(plan.liar, set()).update(lie.kind for lie in plan.lies)
    assert set(sent) == set(ROLES)
    assert {"reports", "heartbeats", "inventories"} <= sent["node"]
    assert "proposals" in sent["selection"]
    assert {"progress", "commands"} <= sent["executor"]
    assert "requests" in sent["person"]
