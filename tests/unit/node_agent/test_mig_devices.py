"""MIG devices and NVLink islands, as the node agent reads them from NVML and simulates them."""

import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from tests.kits.nvml_cards import GIB, Card, Instance, Machine, installed

from bailiff_devstack.simulated_node import SimulatedInventory
from bailiff_devstack.simulated_node.spec import parse
from bailiff_node_agent.devices import DeviceUnavailable, DeviceUsage, NvmlInventory, prove_release


def partitioned(*parts: Instance, uuid: str = "GPU-1") -> Card:
    return Card(uuid, partitioned=True, parts=dict(enumerate(parts)))


LARGE, SMALL = Instance("MIG-a", "3g.40gb", 40, 1, pids=(7,)), Instance("MIG-b", "1g.10gb", 10, 9)


def inventory(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> NvmlInventory:
    installed(monkeypatch, machine)
    return NvmlInventory()


async def nobody() -> tuple[int, ...]:
    return ()


# --- MIG


def test_a_partitioned_card_is_listed_as_its_mig_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    found = inventory(monkeypatch, Machine([Card("GPU-0"), partitioned(LARGE, SMALL)])).list()
    assert [(each.id, each.kind, each.profile, each.parent, each.memory >> 30) for each in found] == [
        ("GPU-0", "gpu", "", None, 80),
        ("MIG-a", "mig", "3g.40gb", "GPU-1", 40),
        ("MIG-b", "mig", "1g.10gb", "GPU-1", 10),
    ]
    assert {each.model for each in found} == {"NVIDIA H100 80GB HBM3"}
    assert found[1].labels["gpu_instance"] == "1"


@pytest.mark.parametrize(
    ("attributes", "profile"),
    [((3, 3, 40 * 1024), "3g.40gb"), ((1, 3, 40 * 1024), "1c.3g.40gb"), ((1, 1, 9_728), "1g.10gb"), ((7, 7, 81_920), "7g.80gb")],
)
def test_a_driver_that_does_not_name_profiles_tells_the_slices(
    monkeypatch: pytest.MonkeyPatch, attributes: tuple[int, int, int], profile: str
) -> None:
    part = Instance("MIG-a", "", 10, 1, named=False, attributes=attributes)
    assert [each.profile for each in inventory(monkeypatch, Machine([partitioned(part)])).list()] == [profile]


def test_processes_and_memory_are_those_of_the_mig_device(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = inventory(monkeypatch, Machine([partitioned(LARGE, SMALL)]))
    assert gpus.usage("MIG-a") == DeviceUsage(40 * GIB, (7,), {7: GIB})
    assert gpus.usage("MIG-b") == DeviceUsage(0, ())
    assert gpus.utilization("MIG-a") is None


async def test_its_release_is_proven_by_its_own_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine([partitioned(LARGE, SMALL)])
    gpus = inventory(monkeypatch, machine)
    held = await prove_release(gpus, ["MIG-a"], nobody, {}, 0.01, 0.005)
    assert (held.free, held.blockers) == (False, (7,))
    assert (await prove_release(gpus, ["MIG-b"], nobody, {}, 0.01, 0.005)).free


async def test_a_removed_mig_device_is_gone_and_used_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine([partitioned(LARGE, SMALL)])
    gpus = inventory(monkeypatch, machine)
    del machine.cards[0].parts[0]
    assert [each.id for each in gpus.list()] == ["MIG-b"]
    assert gpus.problems() == {}
    assert (await prove_release(gpus, ["MIG-a"], nobody, {}, 0.01, 0.005)).free


def test_a_mig_device_of_a_lost_card_is_not_proven_free(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine([partitioned(LARGE), Card("GPU-0")])
    gpus = inventory(monkeypatch, machine)
    machine.cards[0].lost = True
    assert [(each.id, each.healthy) for each in gpus.list()] == [("MIG-a", False), ("GPU-0", True)]
    assert {name: problem.reason for name, problem in gpus.problems().items()} == {"MIG-a": "lost"}
    with pytest.raises(DeviceUnavailable, match="GPU is lost"):
        gpus.usage("MIG-a")
    del machine.cards[0].parts[0]  # the driver no longer finds it, and the card does not answer
    with pytest.raises(DeviceUnavailable):
        gpus.usage("MIG-a")


def test_the_agents_checks_may_list_the_cards_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check asks in a thread of its own: none takes a card for gone that another has just read."""
    cards = [Card(f"GPU-{number}") for number in range(8)]
    installed(monkeypatch, Machine(cards))
    inventory = NvmlInventory()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            listings = [*threads.map(lambda _: inventory.list(), range(200))]
    finally:
        sys.setswitchinterval(interval)
    assert {tuple((device.id, device.healthy) for device in listing) for listing in listings} == {
        tuple((card.uuid, True) for card in cards)
    }


def test_a_card_that_is_partitioned_leaves_the_list_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine([Card("GPU-0"), Card("GPU-1")])
    gpus = inventory(monkeypatch, machine)
    machine.cards[1].partitioned = True
    assert [each.id for each in gpus.list()] == ["GPU-0"]
    machine.cards[1].parts[0] = LARGE
    assert [each.id for each in gpus.list()] == ["GPU-0", "MIG-a"]
    machine.cards[1] = Card("GPU-1")
    assert [(each.id, each.healthy) for each in gpus.list()] == [("GPU-0", True), ("GPU-1", True)]


@pytest.mark.parametrize(("instance", "broken"), [(1, {"MIG-a"}), (0xFFFF_FFFF, {"MIG-a", "MIG-b"})])
def test_an_xid_breaks_the_mig_device_that_it_names_or_all_of_the_card(
    monkeypatch: pytest.MonkeyPatch, instance: int, broken: set[str]
) -> None:
    machine = Machine([partitioned(LARGE, SMALL), Card("GPU-0")])
    gpus = inventory(monkeypatch, machine)
    gpus.problems()
    machine.events.append(SimpleNamespace(device="GPU-1", eventData=94, gpuInstanceId=instance))
    assert {name for name, problem in gpus.problems().items() if problem.code == 94} == broken


def test_memory_errors_of_a_card_break_all_its_mig_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine([partitioned(LARGE, SMALL)])
    gpus = inventory(monkeypatch, machine)
    gpus.problems()
    machine.cards[0].ecc = 2
    assert {name: problem.detail for name, problem in gpus.problems().items()} == dict.fromkeys(
        ("MIG-a", "MIG-b"), "2 uncorrected memory errors"
    )


# --- NVLink and PCIe


def test_gpus_with_peer_access_over_nvlink_are_one_island(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = [Card(f"GPU-{number}") for number in range(5)]
    pairs = frozenset(frozenset(pair) for pair in (("GPU-0", "GPU-2"), ("GPU-2", "GPU-4"), ("GPU-1", "GPU-3")))
    found = inventory(monkeypatch, Machine(cards, p2p=pairs)).list()
    assert [each.island for each in found] == ["nvlink-0", "nvlink-1", "nvlink-0", "nvlink-1", "nvlink-0"]


def test_without_peer_status_the_ends_of_the_links_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    bridged = [
        Card("GPU-0", bus="0000:01:00.0", links=("0000:02:00.0",)),
        Card("GPU-1", bus="0000:02:00.0", links=("0000:01:00.0",)),
    ]
    switched = [Card("GPU-2", bus="0000:03:00.0", links=("switch",)), Card("GPU-3", bus="0000:04:00.0", links=("switch",))]
    found = inventory(monkeypatch, Machine([*bridged, *switched, Card("GPU-4", bus="0000:05:00.0")])).list()
    assert [each.island for each in found] == ["nvlink-0", "nvlink-0", "nvlink-1", "nvlink-1", ""]


def test_gpus_without_nvlink_are_on_the_island_of_their_pcie_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = [Card(f"GPU-{number}") for number in range(5)]
    switches = {"GPU-0": 1, "GPU-1": 1, "GPU-2": 2, "GPU-3": 2}
    found = inventory(monkeypatch, Machine(cards, p2p=frozenset(), switches=switches)).list()
    assert [each.island for each in found] == ["pcie-0", "pcie-0", "pcie-1", "pcie-1", ""]


def test_a_partitioned_card_is_on_no_island(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine([Card("GPU-0"), partitioned(LARGE)], p2p=frozenset({frozenset(("GPU-0", "GPU-1"))}))
    assert [each.island for each in inventory(monkeypatch, machine).list()] == ["", ""]


# --- simulated


def test_simulated_devices_may_be_gpus_mig_devices_and_islands() -> None:
    found = parse("4xH100-80GB/nvlink2,3xH100-80GB:3g.40gb,1xA100-40GB", "n1")
    assert [(each.id, each.profile or each.island) for each in found] == [
        ("GPU-sim-n1-0", "nvlink-0"),
        ("GPU-sim-n1-1", "nvlink-0"),
        ("GPU-sim-n1-2", "nvlink-1"),
        ("GPU-sim-n1-3", "nvlink-1"),
        ("MIG-sim-n1-4-3g.40gb-0", "3g.40gb"),
        ("MIG-sim-n1-4-3g.40gb-1", "3g.40gb"),
        ("MIG-sim-n1-5-3g.40gb-0", "3g.40gb"),
        ("GPU-sim-n1-6", ""),
    ]
    assert [each.index for each in found] == list(range(8))
    assert (found[4].parent, found[4].memory) == ("GPU-sim-n1-4", 40 * GIB)


@pytest.mark.parametrize(
    "spec", ["1xH100-80GB:9g.90gb", "1xH100-80GB:", "2xH100-80GB,", "2xH100-80GB/nvlink0", "1xH100-80GB:3g.40gb/nvlink2"]
)
def test_a_malformed_part_is_refused(spec: str) -> None:
    with pytest.raises(ValueError, match="8xH100-80GB"):
        parse(spec, "n1")


def test_a_node_has_at_most_64_devices_of_all_kinds() -> None:
    with pytest.raises(ValueError, match="65 GPUs are too many"):
        parse("63xH100-80GB,2xH100-80GB:3g.40gb", "n1")


def test_the_file_of_faults_partitions_simulated_cards(tmp_path) -> None:
    from bailiff_devstack.simulated_node.__main__ import main

    faults = tmp_path / "faults.json"
    gpus = SimulatedInventory("2xH100-80GB:3g.40gb", "n1", faults=faults)
    assert [each.profile for each in gpus.list()] == ["3g.40gb", "3g.40gb"]
    assert main([str(faults), "gpus", "7xH100-80GB:1g.10gb"]) == 0
    assert [each.profile for each in gpus.list()] == ["1g.10gb"] * 7
    assert gpus.usage("MIG-sim-n1-0-3g.40gb-0") == DeviceUsage(0, ())
    with pytest.raises(DeviceUnavailable):
        gpus.usage("GPU-sim-n1-0")
    assert main([str(faults), "gpus", "7xH100"]) == 2
