"""Machines with MIG devices and NVLink for the stories of the core, in the node agent's notation of simulated devices."""

from tests.kits.log_builder import Story

from bailiff_core.model.demand import TaskGroup
from bailiff_core.records import facts
from bailiff_core.records.payload import Decision
from bailiff_devstack.simulated_node.spec import parse


def devices(spec: str, node: str) -> tuple[facts.DeviceInfo, ...]:
    """The inventory of a node with these devices, such as `2xH100-80GB/nvlink2,2xH100-80GB:3g.40gb`."""
    return tuple(
        facts.DeviceInfo(
            id=each.id,
            kind=each.kind,
            model=each.model,
            memory_bytes=each.memory,
            parent=each.parent,
            profile=each.profile,
            island=each.island,
        )
        for each in parse(spec, node)
    )


def joined(story: Story, name: str, spec: str, boot: int = 1) -> facts.NodeJoined:
    """The fact that a node with these devices announced itself."""
    return story.joined(name, boot=boot).model_copy(update={"devices": devices(spec, name)})


def joins(story: Story, name: str, spec: str, boot: int = 1) -> list[Decision]:
    """A node with these devices joins, or announces itself again."""
    return story.cycle(joined(story, name, spec, boot))


def mig(profile: str, count: int = 1, each: int = 1) -> TaskGroup:
    """`count` tasks with `each` MIG devices of this profile."""
    return TaskGroup(count=count, mig_profile=profile, gpu_devices=each if each > 1 else None)


def on(story: Story, job: str) -> list[str]:
    """The ids of the devices of the job's tasks."""
    found = []
    for task in story.job(job).tasks:
        found += [each.id for each in story.state.nodes[task.node].devices if task.devices >> each.number & 1]
    return found
