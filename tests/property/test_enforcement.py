"""An enforced policy holds afterwards, and no eviction was unnecessary."""

from hypothesis import given
from hypothesis import strategies as st
from tests.kits.builders import Sketch, group
from tests.kits.examples import examples
from tests.kits.log_builder import policy as rules

from bailiff_core.lifecycle.enforcement import _bounds, enforcement
from bailiff_core.model.placement_ranges import numbers
from bailiff_core.model.units import Unit, whole_job
from bailiff_core.records.decisions import EvictionDecided
from bailiff_core.scheduling_snapshot import current_snapshot

PARENTS = {"lab": None, "a": "lab", "b": "lab", "web": None}
JOBS = st.tuples(
    st.sampled_from(["a", "b", "web", "lab"]), st.integers(1, 3), st.integers(1, 3), st.sampled_from([50, 75]), st.booleans()
)


@examples(200)
@given(
    jobs=st.lists(JOBS, max_size=8),
    limits=st.fixed_dictionaries(dict.fromkeys(PARENTS, st.integers(-1, 12))),
    quotas=st.fixed_dictionaries(dict.fromkeys(PARENTS, st.integers(0, 12))),
)
def test_all_bounds_are_kept_and_the_set_is_irreducible(jobs, limits, quotas):
    sketch = Sketch()
    state = sketch.state
    state.policy = rules(
        projects=[
            {"name": name, "parent": parent, "limit": {"gpus": limits[name]}, "quota": {"gpus": quotas[name]}}
            for name, parent in PARENTS.items()
        ]
    )
    for number, (project, gpus, tasks, priority, preemptible) in enumerate(jobs):
        sketch.node(f"n{number}", gpus=16)
        job = sketch.job(f"j{number}", group(count=tasks, gpus=gpus), priority=priority, preemptible=preemptible)
        job.demand = job.demand.model_copy(update={"min_tasks": 1})
        job.project = project
        sketch.at(job, *((f"n{number}", range(at * gpus, (at + 1) * gpus)) for at in range(tasks)))
    state.enforcing = True
    enforced = list(enforcement(state))
    usage = current_snapshot(state).usage
    gone = []
    for decision in enforced:
        assert isinstance(decision, EvictionDecided)
        job = state.jobs[decision.job]
        gone.append(Unit(job, tuple(numbers(decision.tasks)), False) if decision.tasks else whole_job(job))
    for unit in gone:
        usage.evict(unit)
    assert all(bound.satisfied() for bound in _bounds(usage))
    for unit in gone:
        last = Unit(unit.job, unit.indices[:1], False)
        usage.restore(last)
        assert not all(bound.satisfied() for bound in _bounds(usage)), "one more task could have been kept"
        usage.evict(last)
    usage.rollback(0)
    state.enforcing = False
    assert list(enforcement(state)) == []
