"""What lets clusters for tests run side by side on one machine."""

import hashlib
from pathlib import Path


def settle_in(folder: Path, real_nodes: int) -> None:
    """What the real nodes of a new cluster need beside other clusters, and on a busy machine."""
    digest = hashlib.sha256(str(folder.resolve()).encode())
    for node in range(1, real_nodes + 1):
        _separate_network(folder, node, int.from_bytes(digest.digest()[:2]))
        _share_processors(f"offline-kubernetes-{digest.hexdigest()[:8]}-{node}")


def _separate_network(folder: Path, node: int, number: int) -> None:
    """Its pods get addresses that no other cluster of this machine gives to its own: all of them are routed by this machine."""
    file = folder / f"n{node}" / "cni" / "net.conflist"
    subnet = f"10.{100 + 64 * (node - 1) + number // 256 % 64}.{number % 256}.0/24"
    file.write_text(file.read_text().replace(f"10.89.{node}.0/24", subnet))


def _share_processors(cgroup: str) -> None:
    """By itself all pods of a node together have the share of a single other process: probes would end what is only slow."""
    for file, share in ((f"cpu/{cgroup}/cpu.shares", 32768), (f"{cgroup}/cpu.weight", 3200)):
        path = Path("/sys/fs/cgroup") / file
        if path.exists():
            path.write_text(str(share))
