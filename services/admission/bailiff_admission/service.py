"""The admission service: one writer per pool assigned to this replica."""

from bailiff_bus.port import Bus
from bailiff_core.admission.pool import unsupported_policy
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.records.facts import InputRejected
from bailiff_log.keys import KeyFileError, existing_or_new_key, read_private_key
from bailiff_log.projection import Projection
from bailiff_log.reader import Entry
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.logs import logger
from bailiff_service.metrics import Metrics
from bailiff_service.policy_files import InvalidPolicy, read_policy
from bailiff_service.pool_ownership import PoolService
from bailiff_service.settings import PoolDeclaration, SettingsError, read_own_credentials
from bailiff_service.yaml_files import UnreadableFile

from .input_consumer import InputPartitions
from .input_decoder import LatestPool
from .job_specs import SpecsKeys
from .poison_inputs import CycleFailed
from .settings import AdmissionSettings
from .writer import CHECK_EVERY, Writer
from .writer_context import PoolMemory, Replica, build_writer_context

NAME = "admission"


class AdmissionService(PoolService):
    """Admission of all declared pools assigned to this replica."""

    def __init__(self, settings: AdmissionSettings, metrics: Metrics, bus: Bus, clock_and_ids: ClockAndIds) -> None:
        super().__init__(
            NAME, settings, metrics, bus, self._write, ends_interval_s=CHECK_EVERY / 1_000_000, on_log_end=self._on_log_end
        )
        credentials = read_own_credentials(settings)
        self._replica = Replica(
            settings,
            metrics,
            bus,
            clock_and_ids,
            pools=tuple(pool.name for pool in self._pools),
            first_policy=first_policy(settings),
            credentials=credentials,
            specs_keys=specs_keys(settings) if credentials is not None else None,
            partitions=InputPartitions(bus, clock_and_ids),
            latest_pool=LatestPool(),
        )
        self._memory = {pool.name: PoolMemory() for pool in self._pools}
        self._writers: dict[str, Writer] = {}

    async def _open_projection(self, pool: PoolDeclaration) -> Projection:
        memory, projection = self._memory[pool.name], await super()._open_projection(pool)
        rejections = memory.rejections
        rejections.clear()

        def observe(entry: Entry) -> None:
            if isinstance(entry.record.data, InputRejected) and entry.record.data.count == 1 and not entry.record.data.offsets:
                rejections.append(entry)

        projection.observe = observe
        return projection

    async def _write(self, projection: Projection) -> None:
        pool = projection.pool
        writer = self._writers[pool] = Writer(await build_writer_context(self._replica, self._memory[pool], projection))
        try:
            await writer.run()
        except CycleFailed as failure:
            logger(pool=pool).error("a cycle failed, starting again", reason=str(failure))
        finally:
            del self._writers[pool]

    def _on_log_end(self, pool: str, end: int) -> None:
        if pool in self._writers:
            self._writers[pool].log_ends_at(end)


def first_policy(settings: AdmissionSettings) -> Policy:
    """The policy of a new pool. Raises `SettingsError` if its file is invalid."""
    if settings.policy is None:
        return DEFAULT_POLICY
    try:
        policy = read_policy(settings.policy)
    except (UnreadableFile, InvalidPolicy) as error:
        raise SettingsError(str(error).splitlines()) from None
    missing = unsupported_policy(policy, unsigned=settings.credentials is not None or settings.unsigned == "acl")
    if missing is not None:
        raise SettingsError([f"{settings.policy}: {missing}"])
    return policy


def specs_keys(settings: AdmissionSettings) -> SpecsKeys:
    """The keys of job specs, made at the first start. Raises `SettingsError`."""
    assert settings.credentials is not None
    path = settings.specs_key or settings.credentials / "specs.key"
    before = path.with_name(f"{path.name}.old")
    try:
        return SpecsKeys(existing_or_new_key(path), (read_private_key(before),) if before.exists() else ())
    except KeyFileError as error:
        raise SettingsError([str(error)]) from None
