"""Wiring of admission: settings, views, the group that deals out domains, and one writer per owned domain."""

from collections import deque

from bailiff_bus.ambient import Ambient
from bailiff_bus.domains import FollowingService
from bailiff_bus.log import Entry
from bailiff_bus.logs import logger
from bailiff_bus.metrics import Metrics
from bailiff_bus.policyfile import NotAPolicy, read_policy
from bailiff_bus.port import Bus
from bailiff_bus.settings import PoolDeclaration, SettingsError
from bailiff_bus.view import DomainView
from bailiff_bus.yamlfile import UnreadableFile
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.records.facts import InputRejected

from .intake.requests import unsupported_policy
from .settings import AdmissionSettings
from .suspects import Suspects, TurnFailed
from .writer import Writer

NAME = "admission"
LETTERS_SENT_AGAIN = 50


class AdmissionService(FollowingService):
    """Admission on all declared domains that the group gives to this replica."""

    def __init__(self, settings: AdmissionSettings, metrics: Metrics, bus: Bus, ambient: Ambient) -> None:
        super().__init__(NAME, settings, metrics, bus, self._write)
        self._own_settings, self._ambient = settings, ambient
        self._policy = first_policy(settings)
        self._suspects: dict[str, Suspects] = {}
        self._rejected: dict[str, deque[Entry]] = {}

    async def _open_view(self, pool: PoolDeclaration) -> DomainView:
        rejected = self._rejected[pool.name] = deque(maxlen=LETTERS_SENT_AGAIN)

        def observe(entry: Entry) -> None:
            if isinstance(entry.record.data, InputRejected) and entry.record.data.count == 1:
                rejected.append(entry)

        view = await super()._open_view(pool)
        view.observe = observe
        return view

    async def _write(self, view: DomainView) -> None:
        writer = Writer(
            view,
            self._ambient,
            self._metrics,
            first_policy=self._policy,
            suspects=self._suspects.setdefault(view.domain, Suspects()),
            declared=frozenset(pool.name for pool in self._pools),
            strays=view.domain == self._pools[0].name,
            digest_every=self._own_settings.digest_every,
            largest_turn=self._own_settings.largest_turn,
            unsigned=self._own_settings.unsigned,
            clock_tolerance=int(self._own_settings.clock_tolerance_s * 1_000_000),
            rejected_lately=self._rejected[view.domain],  # it grows while the writer begins
        )
        try:
            await writer.run()
        except TurnFailed as failure:
            logger(domain=view.domain).error("a turn failed, beginning anew", why=str(failure))


def first_policy(settings: AdmissionSettings) -> Policy:
    """The policy that a new domain begins with. Raises `SettingsError` where its file does not hold one."""
    if settings.policy is None:
        return DEFAULT_POLICY
    try:
        policy = read_policy(settings.policy)
    except (UnreadableFile, NotAPolicy) as fault:
        raise SettingsError(str(fault).splitlines()) from None
    missing = unsupported_policy(policy)
    if missing is not None:
        raise SettingsError([f"{settings.policy}: {missing}"])
    return policy
