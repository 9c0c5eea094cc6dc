"""The notation of simulated devices, such as `8xH100-80GB` or `4xH100-80GB/nvlink2,6xH100-80GB:3g.40gb`."""

import re
from collections.abc import Iterator

from bailiff_node_agent.devices import Device, check_count

_PART = re.compile(
    r"(?P<count>[1-9]\d{0,5})x(?P<model>[A-Za-z0-9]+-(?P<gib>[1-9]\d*)GB)"
    r"(?::(?P<profile>(?:(?P<parts>[1-7])c\.)?(?P<slices>[1-7])g\.(?P<gigabytes>[1-9]\d*)gb(?:\+[a-z0-9.]+)?)|/nvlink(?P<linked>[1-9]\d*))?"
)
SLICES = 7
LABELS = {"simulated": "true"}
MIG_ID = "MIG-sim-"


def parse(text: str, node: str) -> list[Device]:
    """The devices of `8xH100-80GB` (eight GPUs), `0` (none), or several parts with commas between. Raises `ValueError`.

    `6xH100-80GB:3g.40gb`: six MIG devices, on as few cards as they need. `8xH100-80GB/nvlink4`: NVLink connects each four GPUs.
    """
    if text == "0":
        return []
    parts = [_PART.fullmatch(part) for part in text.split(",")]
    if None in parts:
        raise ValueError(
            f"gpus: {text!r} is neither nvml nor simulated GPUs such as 8xH100-80GB, or with MIG devices "
            "4xH100-80GB,6xH100-80GB:3g.40gb, nor 0 for none"
        )
    found = [part for part in parts if part is not None]
    check_count(sum(int(part["count"]) for part in found))
    devices: list[Device] = []
    cards = islands = 0
    for part in found:
        made = [*_mig_devices(part, node, cards)] if part["profile"] else [*_gpus(part, node, cards, islands)]
        cards += len(dict.fromkeys(device.parent or device.id for device in made))
        islands += len(dict.fromkeys(device.island for device in made if device.island))
        devices += [Device(**{**vars(device), "index": len(devices) + at}) for at, device in enumerate(made)]
    return devices


def _gpus(part: re.Match[str], node: str, first: int, islands: int) -> Iterator[Device]:
    linked = int(part["linked"] or 1)
    for at in range(int(part["count"])):
        yield Device(
            index=at,
            id=f"GPU-sim-{node}-{first + at}",
            kind="gpu",
            model=part["model"],
            memory=int(part["gib"]) << 30,
            parent=None,
            healthy=True,
            labels=LABELS,
            island=f"nvlink-{islands + at // linked}" if linked > 1 else "",
        )


def _mig_devices(part: re.Match[str], node: str, first: int) -> Iterator[Device]:
    on_card = SLICES // int(part["slices"]) * (int(part["slices"]) // int(part["parts"] or part["slices"]))
    for at in range(int(part["count"])):
        card, place = divmod(at, on_card)
        yield Device(
            index=at,
            id=f"{MIG_ID}{node}-{first + card}-{part['profile']}-{place}",
            kind="mig",
            model=part["model"],
            memory=int(part["gigabytes"]) << 30,
            parent=f"GPU-sim-{node}-{first + card}",
            healthy=True,
            labels=LABELS,
            profile=part["profile"],
        )
