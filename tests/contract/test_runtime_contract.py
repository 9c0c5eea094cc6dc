"""What the agent may rely on, whichever runtime it has: processes of this machine, its containers, or simulated tasks."""

import asyncio
import contextlib
import os
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest
from tests.kits.docker_engine import IMAGE, containers_of, need_engine
from tests.kits.dra import DraCluster
from tests.kits.kubernetes_cluster import IMAGE as POD_IMAGE
from tests.kits.kubernetes_cluster import PATIENCE_S, Cluster
from tests.kits.waiting import exit_of, until

from bailiff_devstack.simulated_node import SimulatedInventory, SimulatedMachine, SimulatedRuntime
from bailiff_kubernetes import pod_name
from bailiff_node_agent.devices.kubernetes import KubernetesInventory
from bailiff_node_agent.kubernetes_settings import KubernetesSettings
from bailiff_node_agent.runtime import Exit, Launch, Running, Runtime, TaskKey, TaskStillRunning, UnknownTask
from bailiff_node_agent.runtime.docker import DockerRuntime
from bailiff_node_agent.runtime.kubernetes import KubernetesRuntime
from bailiff_node_agent.runtime.kubernetes.pod_resources import PodResources
from bailiff_node_agent.runtime.kubernetes.published import PublishedDevices
from bailiff_node_agent.runtime.process import ProcessRuntime, why_not_isolated

KEY = TaskKey("train-7", 1, "0")
GPU = "GPU-sim-n1-0"
BY_TERM, BY_KILL = (-signal.SIGTERM, 128 + signal.SIGTERM), (-signal.SIGKILL, 128 + signal.SIGKILL)


class Machine(Protocol):
    """A machine on which agents come and go."""

    def agent(self) -> Runtime: ...

    def finishes(self, key: TaskKey = KEY) -> Launch: ...

    def runs_on(self, key: TaskKey = KEY) -> Launch: ...

    def obeys_term_with(self, code: int) -> Launch: ...

    def ignores_term(self) -> Launch: ...

    def gpus_of(self, running: Running) -> tuple[str, ...]:
        """The devices that this task should have."""
        ...

    def is_main(self, running: Running, pids: tuple[int, ...]) -> bool:
        """Whether these processes include the task's own, as `instance` names it."""
        ...

    def has_processes_on(self, device: str, pids: tuple[int, ...]) -> bool:
        """Whether the device is in use by these processes; without any, by nobody."""
        ...


class ByPid:
    """Tasks whose instance is a pid, and whose devices are those ordered. inits: of its processes, those without a GPU."""

    inventory: SimulatedInventory
    inits = 0

    def gpus_of(self, running: Running) -> tuple[str, ...]:
        return (GPU,)

    def is_main(self, running: Running, pids: tuple[int, ...]) -> bool:
        return int(running.instance) in pids

    def has_processes_on(self, device: str, pids: tuple[int, ...]) -> bool:
        used = self.inventory.usage(device).pids
        return set(used) <= set(pids) and len(pids) - len(used) == (self.inits if pids else 0)


class RealMachine(ByPid):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inventory = SimulatedInventory("2xH100-80GB", "n1")

    def agent(self) -> Runtime:
        return ProcessRuntime(self.folder, devices=self.inventory)

    def _launch(self, script: str, key: TaskKey = KEY) -> Launch:
        return Launch(key, script, working_dir=str(self.folder), device_ids=(GPU,))

    def finishes(self, key: TaskKey = KEY) -> Launch:
        return self._launch("exit 0", key)

    def runs_on(self, key: TaskKey = KEY) -> Launch:
        return self._launch("touch ready; exec sleep 300", key)

    def obeys_term_with(self, code: int) -> Launch:
        return self._launch(f"trap 'exit {code}' TERM; touch ready; while :; do sleep 0.02; done")

    def ignores_term(self) -> Launch:
        return self._launch("trap '' TERM; touch ready; sleep 300; exit 0")


class IsolatedMachine(RealMachine):
    """Its jobs do not see the agent's folder. As root they run below an init."""

    inits = 0 if os.geteuid() else 1

    def agent(self) -> Runtime:
        state = self.folder / "state"
        return ProcessRuntime(state, devices=self.inventory, hidden=(state,))


class ContainerMachine(RealMachine):
    """Its jobs are the same, each in a container, below its init, that finds the machine's folder in its place."""

    inits = 1

    def agent(self) -> Runtime:
        return DockerRuntime(self.folder, devices=self.inventory)

    def _launch(self, script: str, key: TaskKey = KEY) -> Launch:
        return replace(super()._launch(script, key), image=IMAGE, folders=(self.folder,))


class PretendMachine(ByPid):
    def __init__(self) -> None:
        self.machine = SimulatedMachine()
        self.inventory = SimulatedInventory("2xH100-80GB", "n1", identify=self.machine.identify)
        self.machine.attach_devices(self.inventory)

    def agent(self) -> Runtime:
        return SimulatedRuntime(self.machine)

    def _launch(self, key: TaskKey = KEY, **behaviour: str) -> Launch:
        env = {f"BAILIFF_SIM_{name}": value for name, value in behaviour.items()}
        return Launch(key, "", env=env, device_ids=(GPU,))

    def finishes(self, key: TaskKey = KEY) -> Launch:
        return self._launch(key, RUN_FOR="0.01")

    def runs_on(self, key: TaskKey = KEY) -> Launch:
        return self._launch(key)

    def obeys_term_with(self, code: int) -> Launch:
        return self._launch(ON_TERM=f"exit:{code}:0.01")

    def ignores_term(self) -> Launch:
        return self._launch(ON_TERM="ignore")


class PodMachine:
    """A real kubelet. Its jobs are shells in pods; their folder is one of the node's."""

    def __init__(self, folder: Path, cluster: Cluster, namespace: str) -> None:
        self.folder = folder
        self.node = cluster.node()
        self.settings = KubernetesSettings(
            kubeconfig=cluster.kubeconfig, namespace=namespace, kubelet_dir=self.node.kubelet, placement_timeout_s=PATIENCE_S
        )
        self.inventory = KubernetesInventory(self.node.pod_resources, self.settings.gpu_resource, grace_s=0)
        self.agents: list[KubernetesRuntime] = []

    def agent(self) -> Runtime:
        runtime = KubernetesRuntime(self.folder / "agent", self.node.name, self.settings)
        self.agents.append(runtime)
        return runtime

    def _launch(self, script: str, key: TaskKey = KEY) -> Launch:
        return Launch(
            key, script, working_dir=str(self.folder), device_ids=(GPU,), image=POD_IMAGE, folders=(self.folder,), grace_s=30
        )

    def finishes(self, key: TaskKey = KEY) -> Launch:
        return self._launch("exit 0", key)

    def runs_on(self, key: TaskKey = KEY) -> Launch:
        return self._launch("touch ready; exec sleep 300", key)

    def obeys_term_with(self, code: int) -> Launch:
        return self._launch(f"trap 'exit {code}' TERM; touch ready; while :; do sleep 0.02; done")

    def ignores_term(self) -> Launch:
        return self._launch("trap '' TERM; touch ready; sleep 300; exit 0")

    def gpus_of(self, running: Running) -> tuple[str, ...]:
        """The kubelet's choice, as it says itself."""
        held = PodResources(self.node.pod_resources).devices_of(self.settings.namespace, pod_name(str(running.key)))
        assert len(held) == 1
        return held

    def is_main(self, running: Running, pids: tuple[int, ...]) -> bool:
        return len(pids) > 0

    def has_processes_on(self, device: str, pids: tuple[int, ...]) -> bool:
        """Without a driver the kubelet alone says that it is in use."""
        return bool(self.inventory.usage(device).memory_used) == bool(pids)


class ExactPodMachine(PodMachine):
    """A real kubelet whose devices are claimed: each pod has exactly the one that was ordered."""

    def __init__(self, folder: Path, cluster: DraCluster, namespace: str, published: PublishedDevices) -> None:
        super().__init__(folder, cluster, namespace)
        self.settings, self.published = cluster.settings(namespace), published
        self._gpus: dict[TaskKey, str] = {}
        self._free = [*cluster.published().values()]
        self.inventory = KubernetesInventory(self.node.pod_resources, self.settings.gpu_resource, grace_s=0, published=published)

    def agent(self) -> Runtime:
        runtime = KubernetesRuntime(self.folder / "agent", self.node.name, self.settings, published=self.published)
        self.agents.append(runtime)
        return runtime

    def _launch(self, script: str, key: TaskKey = KEY) -> Launch:
        if key not in self._gpus:
            self._gpus[key] = self._free.pop()
        return replace(super()._launch(script, key), device_ids=(self._gpus[key],))

    def gpus_of(self, running: Running) -> tuple[str, ...]:
        """The one that was ordered, and the kubelet agrees."""
        held = PodResources(self.node.pod_resources, self.published).devices_of(
            self.settings.namespace, pod_name(str(running.key))
        )
        assert held == (self._gpus[running.key],)
        return held


MACHINES: dict[str, Callable[[Path], Machine]] = {
    "process": RealMachine,
    "isolated": IsolatedMachine,
    "docker": ContainerMachine,
    "simulated": lambda _: PretendMachine(),
}


@contextlib.contextmanager
def namespace_of(cluster: Cluster) -> Iterator[str]:
    """A namespace for the pods of one machine."""
    name = f"contract-{uuid.uuid4().hex[:12]}"
    cluster.kubectl("create", "namespace", name)
    cluster.kubectl("wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout=60s")
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def pod_machine(kubernetes: Cluster, tmp_path: Path) -> Iterator[PodMachine]:
    """Made without an event loop: `machine` asks for it while one runs."""
    with namespace_of(kubernetes) as namespace:
        yield PodMachine(tmp_path, kubernetes, namespace)


@pytest.fixture
def exact_pod_machine(dra_cluster: DraCluster, tmp_path: Path) -> Iterator[PodMachine]:
    """The same with devices that are claimed."""
    with namespace_of(dra_cluster) as namespace:
        published = PublishedDevices(dra_cluster.settings(namespace), dra_cluster.node().name)
        published.update(dra_cluster.get("resourceslices")["items"])
        yield ExactPodMachine(tmp_path, dra_cluster, namespace, published)


PODS = {"kubernetes": "pod_machine", "kubernetes-dra": "exact_pod_machine"}
MARKS = {"kubernetes": [pytest.mark.kubernetes], "kubernetes-dra": [pytest.mark.kubernetes, pytest.mark.long]}


@pytest.fixture(params=[*MACHINES, *(pytest.param(name, marks=MARKS[name]) for name in PODS)])
async def machine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Machine]:
    if request.param == "docker":
        need_engine()
    if request.param == "isolated" and (reason := why_not_isolated()) is not None:
        pytest.skip(f"this machine permits no isolation: {reason}")
    pods = PODS.get(request.param)
    machine: Machine = request.getfixturevalue(pods) if pods is not None else MACHINES[request.param](tmp_path)
    yield machine
    if isinstance(machine, PodMachine):
        for agent in machine.agents:
            await agent.close()
    last_agent = machine.agent()
    for state in await last_agent.adopt():
        if isinstance(state, Running):
            await last_agent.kill(state.key)
            await asyncio.wait_for(last_agent.wait_exit(), PATIENCE_S)
        await last_agent.forget(state.key)
    await last_agent.close()
    if request.param == "docker":
        assert containers_of(tmp_path / "tasks") == []


async def until_it_listens(machine: Machine) -> None:
    """A real job needs a moment before its traps are set."""
    if isinstance(machine, RealMachine | PodMachine):
        await until((machine.folder / "ready").exists)


async def until_it_runs(agent: Runtime) -> None:
    """Its start was ordered; a pod's container needs a moment more."""
    await until(lambda: agent.pids(KEY))


async def test_a_job_runs_and_ends(machine: Machine) -> None:
    agent = machine.agent()
    running = await agent.start(machine.finishes())
    assert isinstance(running, Running)
    assert running.key == KEY
    devices = running.device_ids
    assert len(devices) == 1

    end = await exit_of(agent)
    assert (end.key, end.code, end.device_ids, end.supervisor_lost) == (KEY, 0, devices, False)
    assert end.ended_at >= running.started_at
    assert agent.pids(KEY) == ()


async def test_while_it_runs_its_processes_are_known_and_hold_the_device(machine: Machine) -> None:
    agent = machine.agent()
    running = await agent.start(machine.runs_on())
    assert isinstance(running, Running)
    await until_it_runs(agent)
    pids = agent.pids(KEY)
    assert machine.is_main(running, pids)
    assert running.device_ids == machine.gpus_of(running)
    await until(lambda: machine.has_processes_on(running.device_ids[0], agent.pids(KEY)))  # a shell starts a process now and then

    await agent.kill(KEY)
    await exit_of(agent)
    await until(lambda: machine.has_processes_on(running.device_ids[0], ()))


async def test_term_is_obeyed(machine: Machine) -> None:
    agent = machine.agent()
    await agent.start(machine.obeys_term_with(85))
    await until_it_listens(machine)
    await agent.terminate(KEY)
    assert (await exit_of(agent)).code == 85


async def test_a_job_without_a_handler_is_ended_by_term_itself(machine: Machine) -> None:
    agent = machine.agent()
    await agent.start(machine.runs_on())
    await until_it_listens(machine)
    await agent.terminate(KEY)
    assert (await exit_of(agent)).code in BY_TERM


async def test_term_is_ignored_and_kill_is_not(machine: Machine) -> None:
    agent = machine.agent()
    await agent.start(machine.ignores_term())
    await until_it_listens(machine)
    await agent.terminate(KEY)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(agent.wait_exit(), 0.2)

    await agent.kill(KEY)
    assert (await exit_of(agent)).code in BY_KILL
    assert agent.pids(KEY) == ()


async def test_a_task_is_never_started_twice(machine: Machine) -> None:
    agent = machine.agent()
    first, second = await asyncio.gather(agent.start(machine.runs_on()), agent.start(machine.runs_on()))
    assert first == second
    await until_it_listens(machine)
    await until_it_runs(agent)
    before = agent.pids(KEY)
    assert isinstance(first, Running)
    assert machine.is_main(first, before)
    assert await agent.start(machine.runs_on()) == first
    assert before[0] in agent.pids(KEY)  # a container has short-lived processes besides: its probe
    assert machine.is_main(first, agent.pids(KEY))

    await agent.kill(KEY)
    end = await exit_of(agent)
    assert await agent.start(machine.runs_on()) == end
    assert agent.pids(KEY) == ()


async def test_the_next_agent_adopts_running_tasks_and_gets_their_exits(machine: Machine) -> None:
    first = machine.agent()
    running = await first.start(machine.runs_on())
    await until_it_runs(first)
    await until_it_listens(machine)
    await first.close()

    second = machine.agent()
    assert await second.adopt() == [running]
    assert isinstance(running, Running)
    assert machine.is_main(running, second.pids(KEY))
    await second.terminate(KEY)
    assert (await exit_of(second)).code in BY_TERM


async def test_the_next_agent_gets_exits_from_before_it_started_once(machine: Machine) -> None:
    first = machine.agent()
    await first.start(machine.finishes())
    await first.close()

    second = machine.agent()
    await until(lambda: not second.pids(KEY))
    [end] = await second.adopt()
    assert isinstance(end, Exit) or await exit_of(second)
    third = machine.agent()
    [end] = await third.adopt()
    assert isinstance(end, Exit)
    assert end.code == 0
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(third.wait_exit(), 0.05)


async def test_only_an_ended_task_can_be_forgotten(machine: Machine) -> None:
    agent = machine.agent()
    await agent.start(machine.runs_on())
    with pytest.raises(TaskStillRunning):
        await agent.forget(KEY)
    await agent.kill(KEY)
    await exit_of(agent)

    await agent.forget(KEY)
    assert await machine.agent().adopt() == []
    with pytest.raises(UnknownTask):
        await agent.terminate(KEY)


async def test_exits_of_several_tasks_are_distinguished(machine: Machine) -> None:
    agent = machine.agent()
    lasting, short = TaskKey("long", 0, "0"), TaskKey("short", 0, "0")
    await agent.start(machine.runs_on(lasting))
    await agent.start(machine.finishes(short))
    assert (await exit_of(agent)).key == short
    await agent.kill(lasting)
    assert (await exit_of(agent)).key == lasting


async def test_calls_for_an_unknown_task_are_errors(machine: Machine) -> None:
    agent = machine.agent()
    assert agent.pids(KEY) == ()
    for call in (agent.notice(KEY, {}), agent.terminate(KEY), agent.kill(KEY), agent.forget(KEY)):
        with pytest.raises(UnknownTask):
            await call


def test_a_simulated_pid_can_never_be_a_real_one() -> None:
    assert int(Path("/proc/sys/kernel/pid_max").read_text()) <= 1 << 22
    assert os.getpid() < 1 << 22
