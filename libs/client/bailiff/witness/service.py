"""The witness as a service: its memory, the pools' seals, other witnesses, and the HTTP interface."""

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.messages.seals import CheckpointCosigned, CheckpointRefused, LogSealed
from bailiff_bus.port import Bus, open_producer
from bailiff_core.model.message import MessageBody
from bailiff_log.checkpoints import Checkpoint, parse_origin, witness_key
from bailiff_log.cosignatures import signed_refusal
from bailiff_log.cosigner import Cosigner, MemoryUnusable
from bailiff_log.keys import KeyFileError, existing_or_new_key
from bailiff_log.signed_notes import KeyKind, Note, NoteError, NoteKey
from bailiff_service.clock_and_ids import SYSTEM, ClockAndIds
from bailiff_service.exit_code import ExitCode, MustStop
from bailiff_service.logs import logger
from bailiff_service.metrics import Metrics
from bailiff_service.race import race
from bailiff_service.settings import PoolDeclaration, read_pools

from .follower import SealFollower
from .settings import WitnessSettings
from .witnesses import HttpWitness, OwnWitness, Witness, WitnessAddress

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MAX_REASON = 1000


def build(settings: WitnessSettings, metrics: Metrics) -> "WitnessService":
    """The service on the real Kafka."""
    from bailiff_bus.kafka import KafkaBus

    return WitnessService(settings, metrics, KafkaBus(settings.kafka))


def own_key(settings: WitnessSettings) -> tuple[NoteKey, bytes]:
    """The witness's public and private key; made where there is none. Raises `MustStop`."""
    try:
        private = existing_or_new_key(settings.key_file)
        return witness_key(settings.witness_name, private), private
    except (KeyFileError, NoteError) as error:
        raise MustStop(ExitCode.SETTINGS, f"the witness's key: {error}") from None


class WitnessService:
    """Cosigns the seals of every declared pool, and brings them to other witnesses."""

    name = "witness"

    def __init__(self, settings: WitnessSettings, metrics: Metrics, bus: Bus, clock_and_ids: ClockAndIds = SYSTEM) -> None:
        self._settings, self._metrics, self._bus, self._clock_and_ids = settings, metrics, bus, clock_and_ids
        self.key, self._private = own_key(settings)
        self._pools = read_pools(settings.pools) if settings.witness_kafka else ()
        try:
            self._others = [WitnessAddress.parse(each) for each in settings.witness_submit_to]
            self._log_keys = [NoteKey.parse(each, KeyKind.NOTE) for each in settings.witness_logs]
        except NoteError as error:
            raise MustStop(ExitCode.SETTINGS, str(error)) from None
        if any(not each.url for each in self._others):
            raise MustStop(ExitCode.SETTINGS, "witness_submit_to: expected the key and the URL of each witness")
        self._refused: dict[str, str | None] = {pool.name: None for pool in self._pools}
        self.http_address = ""

    def readiness(self) -> Mapping[str, str | None]:
        """Per pool: None, or why its newest seal was refused."""
        return dict(self._refused)

    async def run(self, stop: asyncio.Event) -> None:
        """Run until stopped."""
        try:
            cosigner = Cosigner(
                self._settings.state_dir / self.name / "cosigned", self.key, self._private, self._clock_and_ids.wall
            )
        except MemoryUnusable as error:
            raise MustStop(ExitCode.SETTINGS, f"the witness's memory: {error}") from None
        try:
            logger().info("cosigning", key=str(self.key))
            await self._check()
            async with self._http(cosigner):
                await race(*self._followers(cosigner), stop.wait())
        except MemoryUnusable as error:
            raise MustStop(ExitCode.INTERNAL, f"the witness's memory: {error}") from None
        finally:
            cosigner.close()
            await self._bus.close()

    async def _check(self) -> None:
        for topic in (topics.SEALS, topics.COSIGNATURES) if self._pools else ():
            await self._bus.spans(topic.name)

    def _followers(self, cosigner: Cosigner) -> list[Awaitable[None]]:
        trusted = frozenset(self._settings.witness_trust)
        followers: list[Awaitable[None]] = []
        witnesses: list[Witness] = [OwnWitness(cosigner), *map(HttpWitness, self._others)]
        for pool in self._pools:
            for witness in witnesses:
                memory = cosigner if isinstance(witness, OwnWitness) else None
                publish, report = partial(self._publish, pool, witness), partial(self._report, pool, witness, cosigner)
                followers.append(SealFollower(self._bus, pool.name, trusted, witness, memory, publish, report).run())
        return followers

    async def _publish(self, pool: PoolDeclaration, witness: Witness, note: Note) -> None:
        checkpoint = Checkpoint.parse(note.text)
        await self._send(pool, str(checkpoint.size), CheckpointCosigned(witness=str(witness.key), checkpoint=str(note)))
        if isinstance(witness, OwnWitness):
            self._metrics.sealed.labels(pool.name).set(checkpoint.size)
        logger(pool=pool.name).info("cosigned", records=checkpoint.size, witness=witness.key.name)

    async def _report(
        self, pool: PoolDeclaration, witness: Witness, cosigner: Cosigner, origin: str, reason: str, seal: LogSealed | None
    ) -> None:
        ours = [each for each in cosigner.logs if (parse_origin(each) or ("",))[0] == pool.name]
        newest = cosigner.newest(origin if origin in ours or not ours else ours[-1])
        size = Checkpoint.parse(newest.text).size if newest is not None else 0
        text = f"{pool.name}: {witness.key.name} refuses to cosign: {reason}; it has cosigned {size} records"
        if not isinstance(witness, OwnWitness):
            text = f"{pool.name}: {witness.key.name} refuses to cosign: {reason}"
        logger(pool=pool.name).error(text, code="witness-refused")
        self._metrics.alarms.labels(pool.name, "witness-refused").inc()
        if isinstance(witness, OwnWitness):
            self._refused[pool.name] = text
            body = CheckpointRefused(
                witness=str(witness.key),
                cosigned=str(newest or ""),
                refused=seal.checkpoint if seal else "",
                reason=reason[:MAX_REASON],
                refused_at=self._clock_and_ids.wall(),
            )
            await self._send(pool, "refused", signed_refusal(body, pool.name, self._private))

    async def _send(self, pool: PoolDeclaration, about: str, body: MessageBody) -> None:
        at = self._clock_and_ids.wall()
        headers, value = wrap(body, source=f"/bailiff/{pool.name}/witness", id=f"{about}/{at}", pool=pool.name, time_us=at)
        async with open_producer(self._bus) as producer:
            sent = await producer.send(topics.COSIGNATURES.name, value, key=pool.name.encode(), headers=headers, partition=0)
            await sent

    @asynccontextmanager
    async def _http(self, cosigner: Cosigner) -> "AsyncIterator[None]":
        """The HTTP interface runs inside the context, if a port is set."""
        if self._settings.witness_port is None:
            yield
            return
        from bailiff_service.health import small_server
        from bailiff_service.web_server import listen

        from .http_api import http_api

        listening, self.http_address = listen(
            self._settings.witness_host, self._settings.witness_port, "witness_host, witness_port"
        )
        server = small_server(http_api(cosigner, self._log_keys))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        logger().info("answering over HTTP", address=self.http_address)
        try:
            yield
        finally:
            server.stop()
            with suppress(asyncio.CancelledError):
                await serving
