"""Checks of `bailiff doctor`: Python, packages, Kafka, topics, logs, clock and services, with advice for each problem.

Each check is a small function that returns findings and never raises for the condition it checks. Read-only: nothing is
written to Kafka, except with `probe`.
"""

import asyncio
import json
import platform
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Collection
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bailiff.client.client import Client
from bailiff.client.errors import ClientError, as_client_error
from bailiff.client.rejections import PoolAlarms, Rejection, all_rejections
from bailiff.client.settings import ClientSettings
from bailiff.policy.policy_findings import all_findings
from bailiff.render.serializers.nodes import CRIU_PAGE, NO_CRIU
from bailiff_bus import topics
from bailiff_bus.grants import PRINCIPALS, principal_of
from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_bus.messages.seals import CheckpointRefused
from bailiff_bus.port import AccessDenied, BusUnavailable, TopicMissing
from bailiff_core.explain.budgets import budgets_near
from bailiff_core.humanize import approval_advice, count_text, duration_text, first_names
from bailiff_core.model.claims import believed_less
from bailiff_core.model.snapshots import checkpointing, driver_of
from bailiff_core.model.state import ENDED, PoolState
from bailiff_core.records.wire import UnreadableRecord
from bailiff_log.cosignatures import MAX_WITNESSES, CosignatureBody, Cosigned, parse_cosignature
from bailiff_log.engine_identity import engine_identity
from bailiff_service.settings import SettingsError, read_pools

from .finding import Check, Status, finding, past
from .liveness import node_checks, service_checks

PACKAGES = ("bailiff-scheduler", "bailiff-core", "aiokafka", "pydantic", "typer", "rich")
OLDEST, NEWEST = (3, 11), (3, 13)
QUIET_AFTER = 600_000_000
CLOCKS_APART = 5_000_000
HEALTH_TIMEOUT = 3.0
MOST_EXTRA = 5
MAX_COSIGNATURES = 10_000  # read of the topic's end
MAX_REJECTIONS, RECENT = 20, 86_400_000_000


async def examine(
    client: Client,
    settings: ClientSettings,
    *,
    state_dir: Path | None = None,
    probe: bool = False,
    role: str = "",
    kubeconfig: Path | None = None,
) -> list[Check]:
    """Runs all checks. If Kafka is unreachable, checks that need it are skipped.

    Args:
        role: See `access_check`.
        kubeconfig: Check this Kubernetes cluster, too.
    """
    found = [python_check(), *package_checks()]
    bootstrap = settings.kafka.bootstrap
    try:
        brokers = await _brokers(client)
        found.append(
            finding("kafka", "ok", f"{bootstrap} is reachable" + (f", {count_text(brokers, 'broker')}" if brokers else ""))
        )
        if settings.kafka.security_protocol != "PLAINTEXT":
            found.append(await access_check(settings.kafka, role))
        found += [check async for check in topic_checks(client, brokers)]
        found += [check async for check in service_checks(client)]
        found += [check async for check in pool_checks(client, settings)]
        found.append(await clock_check(client, probe=probe))
    except AccessDenied as error:
        found.append(finding("topics, pools, clock", "skipped", str(error), "run it with the rights of an operator"))
    except BusUnavailable as error:
        problem = as_client_error(error)
        assert problem is not None
        found.append(finding("kafka", "wrong", problem.text, problem.advice))
        found.append(finding("topics, pools, clock", "skipped", "need Kafka"))
    found += await health_checks(state_dir)
    if kubeconfig is not None:
        from .kubernetes_checks import kubernetes_checks  # imported here: most have no cluster

        found += await kubernetes_checks(kubeconfig)
    return found


# --- this machine


def python_check() -> Check:
    """Checks that Bailiff is tested on this Python version."""
    version_info = sys.version_info[:2]
    name = f"{platform.python_implementation()} {platform.python_version()}"
    if OLDEST <= version_info <= NEWEST:
        return finding("python", "ok", name)
    advice = f"use {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
    return finding("python", "wrong" if version_info < OLDEST else "warn", f"{name} is not tested", advice)


def package_checks() -> list[Check]:
    """Versions of the installed packages; all bailiff packages must be of one release."""
    found: dict[str, str] = {}
    missing = []
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            missing.append(name)
    checks = []
    if missing:
        checks.append(finding("packages", "wrong", f"not installed: {', '.join(missing)}", f"pip install {' '.join(missing)}"))
    ours = {name: number for name, number in found.items() if name.startswith("bailiff")}
    summary = ", ".join(f"{name} {number}" for name, number in found.items())
    if len(set(ours.values())) > 1:
        checks.append(finding("packages", "warn", summary, "install the bailiff packages of one release"))
    elif found:
        checks.append(finding("packages", "ok", summary))
    checks.append(finding("engine", "ok", str(engine_identity())))
    return checks


# --- Kafka


async def _brokers(client: Client) -> int:
    """Number of brokers; 0 before the topics exist, and where their settings may not be read."""
    try:
        return int((await client.bus.topic_settings(topics.AUDIT.name)).get("brokers", 0))
    except (TopicMissing, AccessDenied):
        return 0


async def access_check(kafka: KafkaSettings, role: str = "") -> Check:
    """Compares the rights of the connected user with those of its role in `bailiff_bus.grants`, and names the difference.

    Args:
        role: Default: the role whose user is connected, else `client`.
    """
    user = user_of(kafka)
    principal = PRINCIPALS[role] if role else principal_of(user) or PRINCIPALS["client"]
    from bailiff_bus.kafka.access import access_admin  # imported here: only for a secured Kafka

    async with access_admin(kafka) as admin:
        allowed = await admin.allowed(list(topics.TOPICS), [name for each in PRINCIPALS.values() for name in each.groups])
    wanted, name = frozenset(principal.grants()), f"{user or 'this user'} as {principal.role}"
    missing, extra = sorted(wanted - allowed), sorted(allowed - principal.allowed())
    if missing:
        advice = f"with a user that may alter the cluster: bailiff security apply {principal.role}"
        return finding("access", "wrong", f"{name} lacks {'; '.join(map(str, missing))}", advice)
    if extra:
        shown = "; ".join(map(str, extra[:MOST_EXTRA])) + (
            f" and {len(extra) - MOST_EXTRA} more" if len(extra) > MOST_EXTRA else ""
        )
        return finding("access", "warn", f"{name} may do more than needed: {shown}", "give each service a user of its own")
    return finding("access", "ok", f"{name} has its {count_text(len(wanted), 'right')} and no other")


def user_of(kafka: KafkaSettings) -> str:
    """The user's name, or the common name of the client certificate; empty if there is neither."""
    if kafka.username is not None or kafka.certfile is None:
        return kafka.username or ""
    from cryptography.x509 import NameOID, load_pem_x509_certificate  # imported here: slow

    names = load_pem_x509_certificate(kafka.certfile.read_bytes()).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


async def topic_checks(client: Client, brokers: int) -> AsyncIterator[Check]:
    """Checks that every topic of the registry exists, with the settings of the registry."""
    missing, hidden, fine = [], [], 0
    for topic in topics.TOPICS.values():
        try:
            settings = await client.bus.topic_settings(topic.name)
        except TopicMissing:
            missing.append(topic.name)
            continue
        except AccessDenied:
            hidden.append(topic.name)
            continue
        if topic is topics.AUDIT:
            wrong = topics.check_audit_settings(settings, brokers)
        else:
            wanted = topic.settings_for(brokers).items()
            wrong = [
                f"{name} is {settings.get(name, 'not set')}, not {value}" for name, value in wanted if settings.get(name) != value
            ]
        if wrong:
            status: Status = "wrong" if topic is topics.AUDIT else "warn"
            advice = "kafka-configs --alter --entity-type topics --entity-name TOPIC"
            yield finding(f"topic {topic.name}", status, " ".join(wrong) if topic is topics.AUDIT else "; ".join(wrong), advice)
        else:
            fine += 1
    if missing:
        yield finding("topics", "wrong", f"missing: {', '.join(missing)}", "bailiff topics create")
    if hidden:
        found = f"{len(hidden)} of {len(topics.TOPICS)} not checked: no right to read their settings"
        yield finding("topics", "skipped", found, "run it as an operator to check all topics")
    if fine:
        yield finding("topics", "ok", f"{fine} of {len(topics.TOPICS)} exist with the required settings")


async def pool_checks(client: Client, settings: ClientSettings) -> AsyncIterator[Check]:
    """Checks that each pool's log can be folded; age of its head, number of orphans."""
    try:
        known = await client.pools()
    except ClientError as problem:
        yield finding("pools", "wrong", problem.text, problem.advice)
        return
    declared = _declared(settings)
    silent = [name for name in declared if name not in known]
    if silent:
        advice = "start admission with this pools file"
        yield finding("pools", "wrong", f"declared in {settings.pools} but without a log: {', '.join(silent)}", advice)
    if not known and not silent:
        yield finding("pools", "wrong", "no pool has a log yet", "start admission: it writes the first record")
    for name in known:
        found = await _pool_check(client, name)
        yield found
        if found["status"] != "wrong":
            state = (await client.projection(name)).state
            for check in await node_checks(client, state):
                yield check
            for check in (
                *policy_checks(state),
                *drain_checks(state),
                *device_checks(state),
                *snapshot_checks(state),
                *belief_checks(state),
                *budget_checks(state),
                *enrolment_checks(state),
            ):
                yield check
            async for check in cosignature_checks(client, name, settings.named_witnesses()):
                yield check
            for check in await rejection_checks(client, name):
                yield check


async def cosignature_checks(client: Client, pool: str, named: Collection[str] = ()) -> AsyncIterator[Check]:
    """The newest position that each witness has cosigned, and what witnesses refuse. Only the end of the topic is read.

    Args:
        client: Of the cluster.
        pool: Whose log.
        named: Keys of those that are listed first, and missed.
    """
    name, topic = f"witness {pool}", topics.COSIGNATURES.name
    try:
        spans = await client.bus.spans(topic)
    except (TopicMissing, AccessDenied):
        return
    tails = {number: type(span)(max(span.begin, span.end - MAX_COSIGNATURES), span.end) for number, span in spans.items()}
    newest: dict[str, tuple[int, bool, Cosigned, CosignatureBody]] = {}  # when cosigned, whether refused since
    async for message in client.messages(topic, tails):
        body = parse_cosignature(message, pool)
        found = Cosigned.published(body, None) if body is not None else None
        if body is None or found is None:
            continue
        at = (found.at, isinstance(body, CheckpointRefused))
        if body.witness not in newest or newest[body.witness][:2] <= at:  # not one that somebody sends again
            newest[body.witness] = (*at, found, body)
    is_sealed = any(span.end for span in (await client.bus.spans(topics.SEALS.name)).values())
    for key in sorted(set(named) - newest.keys()) if is_sealed else ():
        text = f"{key.partition('+')[0]} has cosigned nothing, as far as the newest {MAX_COSIGNATURES} messages of {topic} say"
        yield finding(name, "warn", text, "see that it runs: docs/how-to/witness.md")
    by_refusal = sorted(newest.items(), key=lambda each: not each[1][1])  # those that refuse first
    others = [found for key, found in by_refusal if key not in named]
    if len(others) > MAX_WITNESSES:
        text = f"{len(others) - MAX_WITNESSES} more keys have written to {topic}: anybody may invent witnesses"
        yield finding(name, "warn", text, "name those whom you trust: BAILIFF_WITNESS_KEYS")
    for *_, found, body in [*(found for key, found in by_refusal if key in named), *others[:MAX_WITNESSES]]:
        age = duration_text(max(0, client.now() - found.at * 1_000_000))
        position = f"{found.witness.name} cosigned the first {count_text(found.checkpoint.size, 'record')}, {age} ago"
        if isinstance(body, CheckpointRefused):
            advice = f"compare the log with it: bailiff audit verify --pool {pool} --witnesses 1 --witness-key '{body.witness}'"
            yield finding(name, "wrong", f"{position} and refuses to go on: {body.reason}", advice)
        else:
            yield finding(name, "ok", position)


async def rejection_checks(client: Client, pool: str) -> list[Check]:
    """What was rejected or refused, by code and source: history, which says nothing of how the pool is now."""
    projection = await client.projection(pool)
    rows, alarms_read = await all_rejections(PoolAlarms(client.bus), projection.state, projection.reader)
    found = [_rejection_finding(client, pool, row) for row in rows[:MAX_REJECTIONS]]
    if len(rows) > MAX_REJECTIONS:
        found.append(past(f"rejected {pool}", "ok", f"{len(rows) - MAX_REJECTIONS} more kinds of rejected inputs"))
    if not alarms_read:
        found.append(
            finding(f"refused {pool}", "skipped", "no right to read bailiff.alarms", "run it with the rights of an operator")
        )
    return found or [past(f"rejected {pool}", "ok", "nothing was rejected or refused")]


def _rejection_finding(client: Client, pool: str, row: Rejection) -> Check:
    age = max(0, client.now() - row.last) if row.last is not None else None
    when = f", last {duration_text(age)} ago" if age is not None else ""
    at = f" (#{row.seq})" if row.seq is not None else ""
    summary = f"{row.code} from {row.source}: {count_text(row.count, 'time')}{when}{at}. {row.text}"
    recent = age is not None and age < RECENT
    advice = "what each code means: docs/reference/rejections.md" if recent else ""
    return past(f"{'rejected' if row.kind == 'rejected' else 'refused'} {pool}", "warn" if recent else "ok", summary, advice)


def device_checks(state: PoolState) -> list[Check]:
    """Findings for quarantined and unhealthy GPUs."""
    found = []
    for node in sorted(state.nodes.values(), key=lambda node: node.name):
        for device in node.devices:
            dirty = node.quarantined >> device.number & 1
            if node.state != "lost" and (dirty or not device.healthy):
                what = "quarantined" if device.healthy else "unhealthy"
                summary = f"{node.name} GPU {device.number} is {what}: {device.fault or 'reported by its agent'}"
                advice = f"bailiff node describe {node.name}; once repaired: bailiff node clear {node.name} {device.number}"
                found.append(finding(f"GPUs {state.pool}", "warn", summary, f"{advice} --reason WHY"))
    return found


def snapshot_checks(state: PoolState) -> list[Check]:
    """Findings for nodes that cannot save jobs which ask for it; none where no job does."""
    open_jobs = (job for job in state.jobs.values() if job.phase not in ENDED)
    asking = sum(checkpointing(state.rules, job) in ("snapshot", "auto") for job in open_jobs)
    unable = [node for node in state.nodes.values() if node.state == "ready" and driver_of(node) is None]
    if not asking or not unable:
        return []
    reasons = dict.fromkeys(offer.why_not for node in unable for offer in node.snapshots)
    why = "; ".join(reasons) or NO_CRIU
    names = first_names([node.name for node in unable])
    summary = f"{names} cannot save the {count_text(asking, 'job')} that nodes are to save: {why}"
    return [
        finding(
            f"snapshots {state.pool}",
            "warn",
            summary,
            f"install CRIU there, or choose nodes that have it for these jobs: {CRIU_PAGE}",
        )
    ]


def budget_checks(state: PoolState) -> list[Check]:
    """Findings for budgets of GPU-hours that are at their warning or exhausted."""
    advice = "bailiff budget list; more hours in this month: bailiff budget top-up"
    return [finding(f"budgets {state.pool}", "warn", text.rstrip("."), advice) for text in budgets_near(state)]


def belief_checks(state: PoolState) -> list[Check]:
    """A finding that names the jobs that are believed less now, if there are any."""
    less = believed_less(state)
    if not less:
        return []
    names = first_names([f"{job.id} ({count_text(job.unkept, 'time')} in a row)" for job in less])
    summary = f"{count_text(len(less), 'job')} believed less, for ignored graces or unreadable checkpoints: {names}"
    return [finding(f"claims {state.pool}", "warn", summary, f"bailiff explain {less[0].id} says why")]


def enrolment_checks(state: PoolState) -> list[Check]:
    """Findings for agents that wait to be enrolled, and for nodes without a valid key."""
    found = []
    for name, waiting in state.waiting_nodes.items():
        summary = f"{name} waits with the key {waiting.key}, which is not enrolled"
        found.append(finding(f"node {name}", "warn", summary, approval_advice(name)))
    for node in state.nodes.values():
        if state.root_key and node.state != "lost" and node.name not in state.enrolled:
            advice = f"bailiff node enrol {node.name}, and give its agent the token"
            found.append(finding(f"node {node.name}", "wrong", f"{node.name} has no valid key: its key was revoked", advice))
    return found


def policy_checks(state: PoolState) -> list[Check]:
    """Findings for disabled actions and likely mistakes in the pool's policy."""
    check = f"policy {state.pool}"
    found = [finding(check, "warn", oddity.found, oddity.advice) for oddity in all_findings(state)]
    actions = "all actions are enabled"
    if state.rules.preemption.max_migrations == 0:
        actions = "consolidate is disabled (preemption.max_migrations is 0), all other actions are enabled"
    return found or [finding(check, "ok", f"in force since #{state.policy_revision}, {actions}")]


def drain_checks(state: PoolState) -> list[Check]:
    """Findings for drained nodes."""
    found = []
    for number in state.draining:
        node = state.nodes[number]
        if node.drain is not None:
            why = f": {node.drain.reason}" if node.drain.reason else ""
            left = f", {count_text(node.allocated.slots, 'task')} remaining" if node.allocated.slots else ", empty"
            summary = f"drained ({node.drain.mode}) since #{node.drain.seq}{left}{why}"
            found.append(finding(f"node {node.name}", "warn", summary, f"to make it schedulable: bailiff undrain {node.name}"))
    return found


def _declared(settings: ClientSettings) -> list[str]:
    if not settings.pools.exists():
        return []
    try:
        return [pool.name for pool in read_pools(settings.pools)]
    except SettingsError:
        return []


async def _pool_check(client: Client, name: str) -> Check:
    check = f"pool {name}"
    try:
        projection = await client.projection(name)
    except (UnreadableRecord, ValueError, KeyError) as error:
        advice = f"see: bailiff audit verify --pool {name}"
        return finding(check, "wrong", f"its log cannot be folded: {error}", advice)
    state = projection.state
    age = max(0, client.now() - state.now)
    orphans = f", {count_text(projection.reader.orphans, 'orphan')}" if projection.reader.orphans else ""
    counts = f"{count_text(len(state.nodes), 'node')}, {count_text(len(state.jobs), 'job')}"
    summary = f"head #{state.seq}, {duration_text(age)} old, epoch {state.epoch}, {counts}{orphans}"
    if state.silent_nodes:
        advice = "once they report again: bailiff node return"
        return finding(check, "wrong", f"{summary}; {len(state.silent_nodes)} nodes became silent at once", advice)
    if state.queue and age > QUIET_AFTER:
        return finding(
            check, "warn", f"{summary}; {count_text(len(state.queue), 'job')} pending", "check that admission is running"
        )
    return finding(check, "ok", summary)


async def clock_check(client: Client, *, probe: bool) -> Check:
    """Offset between the clocks of this machine and the broker: measured with a probe, else bounded by the newest message."""
    if probe:
        offset = await _probe(client)
        return _clock_finding(offset, f"{duration_text(abs(offset))} offset (by a probe)")
    newest = 0
    for topic in (topics.NODE_REPORTS.name, topics.AUDIT.name):
        try:
            spans = await client.bus.spans(topic)
        except (TopicMissing, AccessDenied):
            continue
        tails = {number: type(span)(max(span.begin, span.end - 1), span.end) for number, span in spans.items()}
        async for message in client.messages(topic, tails):
            newest = max(newest, message.time)
    if not newest:
        return finding("clock", "skipped", "no message to compare with yet", "to measure it: bailiff doctor --probe")
    ahead = newest - client.now()
    if ahead > CLOCKS_APART:
        return _clock_finding(ahead, f"the broker's clock is {duration_text(ahead)} or more ahead of this machine's")
    if -ahead > CLOCKS_APART:
        found = f"the newest message is {duration_text(-ahead)} old, so this machine's clock is at most that far ahead"
        return finding("clock", "ok", found, "to measure it: bailiff doctor --probe")
    return finding("clock", "ok", f"less than {duration_text(CLOCKS_APART)} from the broker's")


async def _probe(client: Client) -> int:
    producer = await client.bus.producer()
    try:
        before = client.now()
        receipt = await (await producer.send(topics.JOB_LOGS.name, b"", key=b"doctor"))
        return receipt.time - (before + client.now()) // 2
    finally:
        await producer.close()


def _clock_finding(offset: int, summary: str) -> Check:
    if abs(offset) > CLOCKS_APART:
        return finding(
            "clock", "wrong", summary, "synchronise the clocks (chrony, ntpd): services stop if they are more than 5 s apart"
        )
    return finding("clock", "ok", summary)


# --- services


async def health_checks(state_dir: Path | None) -> list[Check]:
    """Readiness of the services whose address files are found."""
    if state_dir is None:
        advice = (
            "to ask each service whether it is ready: --state-dir DIR, the folder of their BAILIFF_HTTP_ADDRESS_FILE "
            "(after make up: --state-dir .bailiff/state)"
        )
        return [finding("services", "skipped", "their addresses are unknown", advice)]
    known = addresses_below(state_dir)
    if not known:
        advice = "name the folder in which the services' BAILIFF_HTTP_ADDRESS_FILE lie; after make up: --state-dir .bailiff/state"
        return [finding("services", "warn", f"no address file below {state_dir}", advice)]
    probes = [asyncio.to_thread(_health, name, address) for name, address in known.items()]
    return list(await asyncio.gather(*probes))


def addresses_below(state_dir: Path) -> dict[str, str]:
    """Addresses of services, by file name."""
    files = [path for path in sorted(state_dir.rglob("*address*")) if path.is_file()]
    found = {str(path.relative_to(state_dir)): _address_in(path) for path in files}
    return {name: address for name, address in found.items() if address}


def _address_in(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return text if text.startswith(("http://", "https://")) else ""


def _health(name: str, address: str) -> Check:
    check = f"service {name.removesuffix('.address')}"
    try:
        with urllib.request.urlopen(f"{address}/readyz", timeout=HEALTH_TIMEOUT):  # noqa: S310 - http(s) only, see above
            return finding(check, "ok", f"ready at {address}")
    except urllib.error.HTTPError as error:
        return finding(check, "wrong", f"{address} is not ready: {_reasons(error.read())}", "see its log")
    except OSError as error:
        return finding(check, "wrong", f"{address} does not answer: {error}", "restart it")


def _reasons(body: bytes) -> str:
    try:
        checks = json.loads(body)["checks"]
        return "; ".join(f"{name}: {why}" for name, why in checks.items() if why) or "no reason given"
    except (ValueError, KeyError, TypeError, AttributeError):
        return "no reason given"
