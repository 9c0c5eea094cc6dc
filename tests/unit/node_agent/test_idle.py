"""Tasks whose GPUs do nothing: who is told of, and when."""

from bailiff_node_agent.devices import SimulatedInventory
from bailiff_node_agent.idle import Activity, Idleness
from bailiff_node_agent.runtime import TaskKey

ONE, TWO = "GPU-sim-n1-0", "GPU-sim-n1-1"
TRAIN = TaskKey("train", 1, "0")


def test_it_is_told_once_after_a_while_and_once_when_it_works_again() -> None:
    inventory = SimulatedInventory("2xH100-80GB", "n1")
    watch, tasks = Idleness(inventory, told_after_s=60.0), [(TRAIN, (ONE, TWO))]
    for device in (ONE, TWO):
        inventory.fail(device, busy_percent=0)
    assert watch.look(tasks, 0.0) == []
    assert watch.look(tasks, 59.0) == []
    assert watch.look(tasks, 61.0) == [Activity(TRAIN, idle=True, seconds=61.0)]
    assert watch.look(tasks, 300.0) == []
    inventory.fail(TWO, busy_percent=7)
    assert watch.look(tasks, 301.0) == [Activity(TRAIN, idle=False, seconds=0.0)]
    assert watch.look(tasks, 302.0) == []


def test_work_in_between_begins_it_anew() -> None:
    inventory = SimulatedInventory("1xH100-80GB", "n1")
    watch, tasks = Idleness(inventory, told_after_s=60.0), [(TRAIN, (ONE,))]
    inventory.fail(ONE, busy_percent=0)
    watch.look(tasks, 0.0)
    inventory.fail(ONE, busy_percent=90)
    watch.look(tasks, 50.0)
    inventory.fail(ONE, busy_percent=0)
    assert watch.look(tasks, 55.0) == []
    assert watch.look(tasks, 110.0) == []
    assert watch.look(tasks, 115.0) == [Activity(TRAIN, idle=True, seconds=60.0)]


def test_where_nobody_can_tell_nobody_is_idle_and_who_has_no_gpu_never_is() -> None:
    inventory = SimulatedInventory("1xH100-80GB", "n1")
    watch = Idleness(inventory, told_after_s=0.0)
    assert watch.look([(TRAIN, (ONE,)), (TaskKey("cpu", 1, "0"), ())], 0.0) == []


def test_a_task_that_is_gone_is_forgotten() -> None:
    inventory = SimulatedInventory("1xH100-80GB", "n1")
    watch = Idleness(inventory, told_after_s=0.0)
    inventory.fail(ONE, busy_percent=0)
    assert watch.look([(TRAIN, (ONE,))], 0.0) == [Activity(TRAIN, idle=True, seconds=0.0)]
    assert watch.look([], 1.0) == []
    assert watch.look([(TRAIN, (ONE,))], 2.0) == [Activity(TRAIN, idle=True, seconds=0.0)]
