"""Use and demand of projects: counted once, kept up to date, and restored after every trial."""

from dataclasses import replace
from fractions import Fraction

from tests.builders import GIB, group
from tests.unit.core_queue.kit import Town, gpus, project, surplus, whole

from bailiff_core.model.resource_vector import ZERO, ResourceVector
from bailiff_core.model.state import Eviction, PoolState, Task
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.quota.demand_vector import whole as whole_amount
from bailiff_core.quota.usage import Usage

LAB = (project("lab"), project("vision", "lab"), project("speech", "lab"))


def everything(usage: Usage) -> list[tuple[ResourceVector, ResourceVector, ResourceVector]]:
    names = usage.tree.branches
    return [(usage.allocated(name), usage.non_preemptible(name), usage.requested(name)) for name in names]


def refreshed(state: PoolState, usage: Usage) -> None:
    usage.refresh(state, state.indices.changed_jobs)
    state.indices.changed_jobs.clear()
    state.indices.changed_nodes.clear()
    assert everything(usage) == everything(Usage.of(state))


def test_use_and_requests_are_summed_up_the_tree() -> None:
    town = Town(*LAB)
    town.runs("a", "vision", group(count=2, gpus=1, cpu=2, gib=1))
    town.runs("b", "speech", group(gpus=3), preemptible=False)
    town.waits("c", "speech", group(gpus=4))
    town.waits("d", "lab", group(gpus=1))
    usage = Usage.of(town.state)
    assert usage.allocated("vision") == gpus(2, cpus=4, gib=2)
    assert usage.allocated("speech") == usage.non_preemptible("speech") == gpus(3)
    assert usage.requested("speech") == gpus(7)
    assert usage.allocated("lab") == usage.allocated("") == gpus(5, cpus=4, gib=2)
    assert usage.non_preemptible("lab") == gpus(3)
    assert usage.requested("lab") == gpus(10, cpus=4, gib=2)
    assert usage.requested("lab*") == gpus(1)
    assert usage.allocated("lab*") == ZERO


def test_releasing_tasks_do_not_count_until_they_are_stuck() -> None:
    town = Town(*LAB)
    job = town.runs("a", "vision", group(count=2, gpus=1))
    usage = Usage.of(town.state)
    job.phase, job.eviction = "evicting", Eviction(1, "preemption", 30)
    town.state.indices.changed_jobs["a"] = None
    refreshed(town.state, usage)
    assert usage.allocated("vision") == usage.requested("vision") == ZERO
    job.tasks[0].state = "released"
    job.eviction = replace(job.eviction, stuck=True)
    town.state.indices.changed_jobs["a"] = None
    refreshed(town.state, usage)
    assert usage.allocated("vision") == gpus(1)


def test_a_finished_member_neither_uses_resources_nor_is_requested_again() -> None:
    town = Town(*LAB)
    job = town.runs("a", "vision", group(count=4, gpus=1), minimum=2, placed=3)
    job.tasks[0].state, job.tasks[0].exit_code = "exited", 0
    usage = Usage.of(town.state)
    assert usage.allocated("vision") == gpus(2)
    assert usage.requested("vision") == gpus(3)


def test_an_evicted_surplus_task_stops_counting() -> None:
    town = Town(*LAB)
    job = town.runs("a", "vision", group(count=3, gpus=1), minimum=2)
    job.tasks[2].eviction = Eviction(1, "preemption", 30)
    usage = Usage.of(town.state)
    assert usage.allocated("vision") == usage.requested("vision") == gpus(2)
    assert usage.allocated_to(Unit(job, (0, 1, 2), core=True)) == gpus(2)


def test_a_relocated_job_is_charged_for_its_reservation() -> None:
    town = Town(*LAB)
    job = town.runs("a", "vision", group(count=2, gpus=1))
    job.phase, job.eviction = "evicting", Eviction(1, "preemption", 30)
    job.reservation = [Task(0, 0, 1, "reserved"), Task(1, 0, 2, "reserved")]
    usage = Usage.of(town.state)
    assert usage.allocated("vision") == usage.requested("vision") == gpus(2)


def test_changes_are_counted_once_and_ended_jobs_not_at_all() -> None:
    town = Town(*LAB)
    job = town.runs("a", "vision", group(count=2, gpus=1))
    usage = Usage.of(town.state)
    town.waits("b", "speech")
    refreshed(town.state, usage)
    job.phase = "succeeded"
    town.state.indices.changed_jobs["a"] = None
    refreshed(town.state, usage)
    del town.state.jobs["a"]
    town.state.indices.changed_jobs["a"] = None
    refreshed(town.state, usage)
    assert usage.requested("") == gpus(1)


def test_a_job_whose_class_changes_counts_among_those_that_are_not_preemptible_from_then_on() -> None:
    town = Town(*LAB)
    job = town.runs("a", "vision", group(gpus=2))
    usage = Usage.of(town.state)
    job.preemptible = False
    refreshed(town.state, usage)
    assert usage.non_preemptible("vision") == gpus(2)


def test_a_new_policy_may_bring_another_tree_and_other_classes() -> None:
    town = Town(*LAB)
    job = town.runs("a", "vision", group(gpus=2))
    usage = Usage.of(town.state)
    assert usage.allocated("lab") == gpus(2)
    town.state.policy = Town(project("vision")).state.policy
    job.preemptible = False
    refreshed(town.state, usage)
    assert usage.allocated("lab") == ZERO
    assert usage.non_preemptible("vision") == gpus(2)


def test_totals_are_what_ready_nodes_can_use() -> None:
    town = Town(gpus=4)
    town.node("n2", gpus=8, cpu=16, gib=32)
    usage = Usage.of(town.state)
    assert usage.total == gpus(12, cpus=1016, gib=1032)
    town.state.nodes[1].quarantined = 0b11
    town.state.nodes[1].devices[7].healthy = False
    town.state.indices.changed_nodes[1] = None
    refreshed(town.state, usage)
    assert usage.total == gpus(9, cpus=1016, gib=1032)
    town.state.nodes[0].state = "unreachable"
    town.state.indices.changed_nodes[0] = None
    refreshed(town.state, usage)
    assert usage.total == gpus(5, cpus=16, gib=32)


def test_bytes_of_a_device_cost_their_fraction_of_that_device() -> None:
    town = Town(*LAB, gpus=3, memory=(40, 80, 80))
    asks = group(gpu_share_bytes=10 * GIB, gpu_devices=2)
    job = town.waits("a", "vision", asks)
    runs = town.runs("b", "speech", asks, devices=0b011)
    usage = Usage.of(town.state)
    assert usage.requested("vision") == ResourceVector(500)  # 2 × 10 of the smallest device, 40
    assert usage.allocated("speech") == ResourceVector(375)  # 10 of 40 and 10 of 80
    mark = usage.mark()
    usage.evict(whole(runs))
    assert usage.allocated("speech") == ZERO
    place = GangPlacement((TaskPlacement(0, 0, 0b110),), future=False)
    usage.place(whole(job), place)
    assert usage.allocated("vision") == ResourceVector(250)
    usage.evict(whole(job))
    assert usage.allocated("vision") == ZERO
    usage.rollback(mark)
    assert usage.allocated("speech") == ResourceVector(375)


def test_when_the_smallest_device_changes_so_do_requests_in_bytes() -> None:
    town = Town(*LAB, gpus=2, memory=(30, 70))
    town.waits("a", "vision", group(gpu_share_bytes=10 * GIB))
    usage = Usage.of(town.state)
    assert usage.requested("lab") == ResourceVector(Fraction(1000, 3))
    town.state.indices.changed_jobs.clear()  # no job has changed since
    town.state.nodes[0].quarantined = 0b01
    town.state.indices.changed_nodes[0] = None
    refreshed(town.state, usage)
    assert usage.requested("lab") == ResourceVector(Fraction(1000, 7))
    assert (usage.smallest.device_bytes, usage.largest.device_bytes) == (70 * GIB, 70 * GIB)


def test_devices_that_change_on_one_node_count_beside_other_changes_on_another() -> None:
    town = Town(*LAB, gpus=2, memory=(30, 70))
    town.node("n2")
    town.waits("a", "vision", group(gpu_share_bytes=10 * GIB))
    usage = Usage.of(town.state)
    town.state.indices.changed_jobs.clear()
    town.state.nodes[0].quarantined = 0b01
    town.state.nodes[1].capacity.cpu_milli = 1
    town.state.indices.changed_nodes = {0: None, 1: None}
    refreshed(town.state, usage)
    assert usage.requested("lab") == ResourceVector(Fraction(1000, 7))


def test_devices_of_a_node_that_joined_again_are_measured_anew() -> None:
    town = Town(*LAB, gpus=2, memory=(30, 70))
    town.waits("a", "vision", group(gpu_share_bytes=10 * GIB))
    usage = Usage.of(town.state)
    node = town.state.nodes[0]
    node.devices = [replace(device, memory_bytes=40 * GIB) for device in node.devices]
    town.state.indices.changed_nodes = {0: None}
    refreshed(town.state, usage)
    assert usage.requested("lab") == ResourceVector(250)


def test_a_whole_number_is_an_int() -> None:
    assert type(whole_amount(Fraction(2000))) is int
    assert whole_amount(Fraction(1, 3)) == Fraction(1, 3)


def test_fractions_take_thousandths_of_each_device() -> None:
    town = Town(*LAB)
    town.runs("a", "vision", group(gpu_share_milli=300, gpu_devices=2, count=3))
    assert Usage.of(town.state).allocated("lab") == ResourceVector(1800)


def test_trials_change_use_and_leave_no_trace() -> None:
    town = Town(*LAB)
    elastic = town.runs("a", "vision", group(count=2, gpus=1), group(count=2, gpus=2), minimum=2)
    fixed = town.runs("b", "speech", group(gpus=3), preemptible=False)
    preemptor = town.waits("c", "speech", group(gpus=2))
    usage = Usage.of(town.state)
    before = everything(usage)
    mark = usage.mark()
    usage.evict(surplus(elastic, 3))
    assert usage.allocated("vision") == gpus(4)
    usage.evict(Unit(elastic, (0, 1, 2), core=True))
    assert usage.allocated("vision") == ZERO
    inner = usage.mark()
    usage.evict(whole(fixed))
    usage.place(whole(preemptor), GangPlacement((TaskPlacement(0, 0, 0b11),), future=True))
    assert (usage.allocated("speech"), usage.non_preemptible("speech")) == (gpus(2), ZERO)
    usage.rollback(inner)
    assert (usage.allocated("speech"), usage.non_preemptible("speech")) == (gpus(3), gpus(3))
    usage.restore(surplus(elastic, 3))
    assert usage.allocated("lab") == gpus(5)
    usage.rollback(mark)
    assert everything(usage) == before


def test_a_reader_gets_the_projects_whose_use_changed() -> None:
    town = Town(*LAB)
    job = town.runs("a", "vision")
    usage = Usage.of(town.state)
    seen = usage.position
    assert usage.changes_since(seen) == []
    usage.evict(whole(job))
    assert usage.changes_since(seen) == ["vision", "lab", ""]
    now = usage.position
    town.state.policy = Town(*LAB).state.policy
    usage.refresh(town.state, [])
    assert usage.changes_since(now) is None


def test_a_job_that_asks_for_more_changes_no_use() -> None:
    town = Town(*LAB)
    job = town.runs("a", "vision", group(count=2, gpus=1), placed=1)
    usage = Usage.of(town.state)
    seen = usage.position
    job.demand = job.demand.model_copy(update={"tasks": (group(count=3, gpus=1),)})
    usage.refresh(town.state, ["a"])
    assert (usage.requested("vision"), usage.changes_since(seen)) == (gpus(3), [])


def test_a_relocated_job_whose_eviction_is_stuck_is_charged_for_both_places() -> None:
    town = Town(*LAB)
    job = town.runs("a", "vision", group(count=2, gpus=1))
    job.phase, job.eviction = "evicting", Eviction(1, "preemption", 30, stuck=True)
    job.reservation = [Task(0, 0, 1, "reserved"), Task(1, 0, 2, "reserved")]
    assert Usage.of(town.state).allocated("vision") == gpus(4)


def test_with_a_job_its_reservation_is_gone_as_well() -> None:
    """One of its tasks was to be moved, and its eviction is stuck: both its places count, and neither once the job is evicted."""
    town = Town(*LAB)
    job = town.runs("a", "vision", group(count=2, gpus=1), minimum=1)
    job.tasks[1].eviction = Eviction(1, "preemption", 30, stuck=True)
    job.reservation = [Task(1, 0, 2, "reserved")]
    usage = Usage.of(town.state)
    assert usage.allocated("vision") == gpus(3)
    usage.evict(whole(job))
    assert usage.allocated("vision") == ZERO
