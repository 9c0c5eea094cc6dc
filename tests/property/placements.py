"""What holds for every placement."""

from bailiff_core.placement import GangPlacement


def never_overfills(pool, preemptor, found: GangPlacement, gone=()) -> None:
    """Check capacities from the jobs, not from the nodes' sums: after all evictions, and now if it starts at once."""
    stand_on(pool, preemptor, found, [job for job in pool.jobs.values() if job.id not in gone and job.phase != "evicting"])
    if not found.future:
        stand_on(pool, preemptor, found, [job for job in pool.jobs.values() if job.phase != "reserved"])


def stand_on(pool, preemptor, found: GangPlacement, others) -> None:
    assert [task.index for task in found.tasks] == list(range(preemptor.size))
    for node in pool.nodes.values():
        busy, cpu, slots = 0, 0, 0
        for job in others:
            for task, need in zip(job.tasks, job.groups(), strict=False):
                if task.node == node.number:
                    busy, cpu, slots = busy | task.devices, cpu + need.cpu_milli, slots + 1
        for task, need in zip(found.tasks, preemptor.groups(), strict=True):
            if task.node != node.number:
                continue
            assert task.devices.bit_count() * 1000 == need.gpu_milli
            assert not task.devices & busy
            assert not need.gpu_milli or not task.devices & ~node.capacity.devices
            assert all(node.labels.get(key) == value for key, value in need.node_labels.items())
            assert not need.nodes or node.name in need.nodes
            models = [device.model for device in node.devices if task.devices >> device.number & 1]
            assert not need.gpu_models or all(model in need.gpu_models for model in models)
            busy, cpu, slots = busy | task.devices, cpu + need.cpu_milli, slots + 1
        assert cpu <= node.capacity.cpu_milli
        assert slots <= node.capacity.slots
