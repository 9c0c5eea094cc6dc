"""A pool's seals as its auditor publishes them, a witness on the in-memory bus, and a witness built from its Go module."""

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from tests.kits.memory_bus import MemoryCluster

from bailiff.witness.service import WitnessService
from bailiff.witness.settings import WitnessSettings
from bailiff_bus import topics
from bailiff_bus.envelope import unwrap, wrap
from bailiff_bus.messages.seals import CheckpointCosigned, CheckpointRefused, LogSealed
from bailiff_core.model.message import MessageBody
from bailiff_core.records.merkle import Frontier, leaf_hash
from bailiff_log.checkpoints import Checkpoint
from bailiff_log.keys import key_id
from bailiff_log.seals import make_key, make_seal
from bailiff_log.signed_notes import Note
from bailiff_service.metrics import Metrics

GO_SOURCE = Path(__file__).parents[1] / "tlog_witness"
PATIENCE_S = 60.0
KEY = b"\x11" * 32
IDENTITY = "5a" * 32


class Seals:
    """The seals of one log. branch: from the record `from_seq` on its records are others."""

    def __init__(self, pool: str = "pool-a", private: bytes = KEY, identity: str = IDENTITY) -> None:
        self.pool, self.private, self.identity = pool, private, identity
        self.tree, self.sealed, self._base, self.losses = Frontier(), 0, Frontier(), 0
        self._leaves: list[bytes] = []

    @property
    def key(self) -> str:
        """The public sealing key."""
        return key_id(self.private)

    def published_key(self) -> MessageBody:
        """The message that publishes the key."""
        return make_key(self.private, self.pool, self.identity)

    def seal(self, size: int, branch: str = "") -> LogSealed:
        """Append records up to this size, and seal them."""
        for number in range(self.tree.size, size):
            leaf = leaf_hash(f"{branch}{number}".encode())
            self._leaves.append(leaf)
            self.tree.append(leaf)
        made = make_seal(
            self.private,
            self.pool,
            self.identity,
            self.tree,
            "00" * 32,
            1_800_000_000_000_000,
            self._base.size,
            self._base.followed_by(self._leaves),
            self.losses,
        )
        self._base, self._leaves = self.tree.copy(), []
        return made

    def copy(self) -> "Seals":
        """The same log up to the last seal, to be continued otherwise."""
        other = Seals(self.pool, self.private, self.identity)
        other.tree, other._base, other.losses = self.tree.copy(), self._base.copy(), self.losses
        return other


class Topics:
    """The topics on the in-memory bus."""

    def __init__(self) -> None:
        self._time = 1_800_000_000_000_000
        self.cluster = MemoryCluster(self._clock)
        self.cluster.create_topics(1)

    def publish(self, *bodies: MessageBody, pool: str = "pool-a") -> None:
        """Append to `bailiff.seals`."""
        for body in bodies:
            headers, value = wrap(body, source="/test", id=str(self._clock()), pool=pool, time_us=self._time)
            self.cluster.store(topics.SEALS.name, 0, pool.encode(), headers, value)

    def bodies(self) -> list[MessageBody]:
        """All messages of `bailiff.cosignatures`."""
        return [unwrap(message).body for message in self.cluster.messages(topics.COSIGNATURES.name, 0)]

    def cosigned(self) -> list[int]:
        """The sizes of the cosigned checkpoints, in their order."""
        found = [body for body in self.bodies() if isinstance(body, CheckpointCosigned)]
        return [Checkpoint.parse(Note.parse(body.checkpoint).text).size for body in found]

    def refused(self) -> list[str]:
        """The reasons of the refusals."""
        return [body.reason for body in self.bodies() if isinstance(body, CheckpointRefused)]

    def _clock(self) -> int:
        self._time += 1000
        return self._time


class RunningWitness:
    """The real service on the in-memory bus."""

    def __init__(self, log: Topics, folder: Path, pools: str = "pool-a", **settings: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "pools.yaml"
        file.write_text(f"pools:\n  - {{name: {pools}, partition: 0}}\n")
        values = {"pools": file, "state_dir": folder / "state", **settings}
        self.metrics = Metrics()
        self.service = WitnessService(WitnessSettings(**values), self.metrics, log.cluster.client("witness"))
        self.stop = asyncio.Event()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["RunningWitness"]:
        """Run the witness inside the context."""
        work = self.work = asyncio.create_task(self.service.run(self.stop))
        try:
            yield self
        finally:
            if work.done():
                work.result()
            self.stop.set()
            await work

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait until the condition holds."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                if self.work.done():
                    self.work.result()
                await asyncio.sleep(0.02)


def go_witness_binary(folder: Path) -> Path | None:
    """The witness built from its Go module; None where there is no Go."""
    go = shutil.which("go") or ("/usr/local/go/bin/go" if Path("/usr/local/go/bin/go").exists() else None)
    if go is None:
        return None
    binary = folder / "tlogwitness"
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod -buildvcs=false"}
    subprocess.run([go, "build", "-o", str(binary), "."], cwd=GO_SOURCE, env=environment, check=True, capture_output=True)
    return binary


@contextlib.contextmanager
def go_witness(binary: Path, name: str, *log_keys: str) -> Iterator[str]:
    """Runs a witness that accepts these logs; yields `VKEY URL`."""
    process = subprocess.Popen([str(binary), "serve", name, *log_keys], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        url, vkey = process.stdout.readline().split()
        yield f"{vkey} {url}"
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()
