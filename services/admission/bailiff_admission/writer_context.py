"""What a writer works with: built here, once for each incarnation."""

from collections import deque
from dataclasses import dataclass, field

from bailiff_bus.port import Bus, Producer
from bailiff_core.model.policy import Policy
from bailiff_core.model.state import PoolState
from bailiff_log.credentials import Credentials
from bailiff_log.projection import Projection
from bailiff_log.reader import Entry
from bailiff_log.writer import AuditWriter
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.exit_code import ExitCode, MustStop
from bailiff_service.metrics import Metrics

from .clock import LogClock
from .fencing import Fencing
from .input_consumer import InputConsumer, InputPartitions
from .input_decoder import InputDecoder, LatestPool
from .job_specs import JobSpecs, SpecsKeys
from .liveness import Liveness
from .poison_inputs import PoisonInputs
from .publisher import Publisher
from .reactions import Reactions
from .reconciler import Reconciler
from .rejection_limiter import RejectionLimiter
from .senders import sender_of
from .settings import AdmissionSettings
from .state_digests import StateDigests

RESENT_DEAD_LETTERS = 50


@dataclass(frozen=True, slots=True)
class Replica:
    """What the writers of one replica share. pools: all declared ones; the first one's writer rejects what names none of them."""

    settings: AdmissionSettings
    metrics: Metrics
    bus: Bus
    clock_and_ids: ClockAndIds
    pools: tuple[str, ...]
    first_policy: Policy
    credentials: Credentials | None
    specs_keys: SpecsKeys | None
    partitions: InputPartitions
    latest_pool: LatestPool


@dataclass(slots=True)
class PoolMemory:
    """What this process keeps of a pool from one writer to the next. rejections: of the log."""

    poison_inputs: PoisonInputs = field(default_factory=PoisonInputs)
    rejections: deque[Entry] = field(default_factory=lambda: deque(maxlen=RESENT_DEAD_LETTERS))


@dataclass(slots=True)
class WriterContext:
    """The collaborators of one writer. id: of this incarnation."""

    replica: Replica
    memory: PoolMemory
    projection: Projection
    id: str
    producer: Producer
    log: AuditWriter
    clock: LogClock
    liveness: Liveness
    decoder: InputDecoder
    inputs: InputConsumer
    specs: JobSpecs
    digests: StateDigests
    rejections: RejectionLimiter
    fencing: Fencing
    publisher: Publisher
    reconciler: Reconciler
    reactions: Reactions

    @property
    def pool(self) -> str:
        """The pool's name."""
        return self.projection.pool

    @property
    def state(self) -> PoolState:
        """The pool as folded so far; ahead of the log while a cycle is appended."""
        return self.projection.state

    def check_broker_clock(self, append_time: int, sent_at_boot: int, jump: int = 0) -> None:
        """Compare when a record was sent and appended. jump: of the wall clock, not adopted yet. Raises `MustStop`."""
        tolerance = int(self.replica.settings.clock_tolerance_s * 1_000_000)
        apart = self.clock.differs_from(append_time, sent_at_boot, tolerance, jump)
        if apart is not None:
            raise MustStop(
                ExitCode.CLOCK,
                f"the broker's clock is {apart / 1_000_000:+.1f} s from this machine's: synchronise the clocks, then restart",
            )

    async def close(self) -> None:
        """Close what reads and sends."""
        await self.inputs.close()
        await self.log.close(1.0)
        await self.producer.close(1.0)


async def build_writer_context(replica: Replica, memory: PoolMemory, projection: Projection) -> WriterContext:
    """A writer's collaborators. The log has not been read to its end yet: what depends on it, begins with the writer."""
    bus, pool, clock_and_ids, settings = replica.bus, projection.pool, replica.clock_and_ids, replica.settings
    producer = await bus.producer()
    liveness = Liveness(clock_and_ids)
    decoder = InputDecoder(
        pool, pool == replica.pools[0], frozenset(replica.pools), clock_and_ids, liveness, settings.unsigned, replica.latest_pool
    )
    specs = JobSpecs(pool, replica.specs_keys)
    fencing = Fencing()
    publisher = Publisher(producer, clock_and_ids, replica.metrics, pool, replica.credentials)
    reconciler = Reconciler(publisher, specs, clock_and_ids)
    return WriterContext(
        replica=replica,
        memory=memory,
        projection=projection,
        id=clock_and_ids.random_bytes().hex(),
        producer=producer,
        log=AuditWriter(bus, projection.reader, credentials=replica.credentials),
        clock=LogClock(clock_and_ids, 0),
        liveness=liveness,
        decoder=decoder,
        inputs=InputConsumer(
            bus,
            replica.partitions,
            decoder.wants,
            sender_of=lambda message: sender_of(projection.state, message),
            limits=lambda: projection.state.rules.limits,
        ),
        specs=specs,
        digests=StateDigests(settings.digest_every, clock_and_ids, projection.draft_snapshot),
        rejections=RejectionLimiter(),
        fencing=fencing,
        publisher=publisher,
        reconciler=reconciler,
        reactions=Reactions(publisher, fencing, reconciler, memory.poison_inputs, clock_and_ids, specs, bus),
    )
