"""Tasks with idle GPUs: which are reported, and when."""

from bailiff_devstack.simulated_node import SimulatedInventory
from bailiff_node_agent.idle import IdleChange, IdleMonitor
from bailiff_node_agent.runtime import TaskKey

ONE, TWO = "GPU-sim-n1-0", "GPU-sim-n1-1"
TRAIN = TaskKey("train", 1, "0")


def test_it_is_reported_once_when_idle_and_once_when_busy_again() -> None:
    inventory = SimulatedInventory("2xH100-80GB", "n1")
    watch, tasks = IdleMonitor(inventory, report_after_s=60.0), [(TRAIN, (ONE, TWO))]
    for device in (ONE, TWO):
        inventory.fail(device, busy_percent=0)
    assert watch.check(tasks, 0.0) == []
    assert watch.check(tasks, 59.0) == []
    assert watch.check(tasks, 61.0) == [IdleChange(TRAIN, idle=True, seconds=61.0)]
    assert watch.check(tasks, 300.0) == []
    inventory.fail(TWO, busy_percent=7)
    assert watch.check(tasks, 301.0) == [IdleChange(TRAIN, idle=False, seconds=0.0)]
    assert watch.check(tasks, 302.0) == []


def test_work_in_between_begins_it_anew() -> None:
    inventory = SimulatedInventory("1xH100-80GB", "n1")
    watch, tasks = IdleMonitor(inventory, report_after_s=60.0), [(TRAIN, (ONE,))]
    inventory.fail(ONE, busy_percent=0)
    watch.check(tasks, 0.0)
    inventory.fail(ONE, busy_percent=90)
    watch.check(tasks, 50.0)
    inventory.fail(ONE, busy_percent=0)
    assert watch.check(tasks, 55.0) == []
    assert watch.check(tasks, 110.0) == []
    assert watch.check(tasks, 115.0) == [IdleChange(TRAIN, idle=True, seconds=60.0)]


def test_unknown_utilization_and_tasks_without_gpus_are_never_idle() -> None:
    inventory = SimulatedInventory("1xH100-80GB", "n1")
    watch = IdleMonitor(inventory, report_after_s=0.0)
    assert watch.check([(TRAIN, (ONE,)), (TaskKey("cpu", 1, "0"), ())], 0.0) == []


def test_a_task_that_is_gone_is_forgotten() -> None:
    inventory = SimulatedInventory("1xH100-80GB", "n1")
    watch = IdleMonitor(inventory, report_after_s=0.0)
    inventory.fail(ONE, busy_percent=0)
    assert watch.check([(TRAIN, (ONE,))], 0.0) == [IdleChange(TRAIN, idle=True, seconds=0.0)]
    assert watch.check([], 1.0) == []
    assert watch.check([(TRAIN, (ONE,))], 2.0) == [IdleChange(TRAIN, idle=True, seconds=0.0)]
