"""The devstack with real processes: a real Kafka that is killed, paused and restarted, and children that must be stopped."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from tests.kits.kafka import TestKafka
from tests.kits.system import PATIENCE_S

from bailiff_devstack import jars
from bailiff_devstack.identity import Identity, stop_recorded, wait_until, write_record
from bailiff_devstack.jars import JarMismatchError
from bailiff_devstack.kafka import EmbeddedKafka
from bailiff_devstack.kafka_java import KafkaStartError
from bailiff_devstack.managed import Managed
from bailiff_devstack.ports import free_port, free_ports
from bailiff_devstack.processes import ProcessDiedError, Processes

SLEEP = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(600)"]


async def make_topic(bootstrap: str, name: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])
    finally:
        await admin.close()


async def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, acks="all") as producer:
        for value in values:
            await producer.send_and_wait(topic, value)


async def consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        async with asyncio.timeout(PATIENCE_S):
            return [(await consumer.getone()).value for _ in range(count)]


def gone(pid: int) -> bool:
    try:
        return not Identity.of(pid).alive()
    except ProcessLookupError:
        return True


# ------------------------------------------------------------------------------------------------------- Kafka


@pytest.mark.kafka
async def test_a_topic_can_be_made_and_used_as_soon_as_start_returns(kafka: TestKafka) -> None:
    topic = f"devstack-{time.time_ns()}"
    await make_topic(kafka.bootstrap, topic)
    await produce(kafka.bootstrap, topic, [b"one", b"two"])
    assert await consume(kafka.bootstrap, topic, 2) == [b"one", b"two"]


@pytest.mark.kafka
async def test_kill_9_and_restart_keep_records_port_and_folder(private_kafka: Callable[[], EmbeddedKafka]) -> None:
    broker = private_kafka()
    before, pid = broker.bootstrap, broker.pid
    await make_topic(before, "t")
    await produce(before, "t", [b"before"])
    broker.kill()
    assert gone(pid)
    broker.start()
    assert broker.bootstrap == before
    await produce(before, "t", [b"after the kill"])
    broker.restart()
    assert broker.bootstrap == before
    assert await consume(before, "t", 2) == [b"before", b"after the kill"]


@pytest.mark.kafka
async def test_a_paused_broker_answers_again_and_a_later_object_on_other_ports_finds_the_records(
    private_kafka: Callable[[], EmbeddedKafka],
) -> None:
    broker = private_kafka()
    await make_topic(broker.bootstrap, "t")
    broker.pause()
    sending = asyncio.create_task(produce(broker.bootstrap, "t", [b"held up"]))
    done, _ = await asyncio.wait([sending], timeout=0.5)
    assert not done
    broker.resume()
    async with asyncio.timeout(PATIENCE_S):
        await sending
    broker.pause()
    broker.stop()  # a paused broker can be stopped cleanly, too
    assert not broker.running()

    with EmbeddedKafka(broker.state_dir, port=free_port()) as later:
        assert later.bootstrap != broker.bootstrap
        assert await consume(later.bootstrap, "t", 1) == [b"held up"]
        with pytest.raises(KafkaStartError, match="already"):
            EmbeddedKafka(broker.state_dir).start()


@pytest.mark.kafka
def test_a_broker_that_does_not_start_says_why(tmp_path: Path) -> None:
    broker = EmbeddedKafka(tmp_path, properties={"log.retention.hours": "soon"})
    with pytest.raises(KafkaStartError, match=r"log\.retention\.hours"):
        broker.start()
    assert not broker.running()


@pytest.mark.kafka
def test_a_port_that_is_taken_is_named(kafka: TestKafka, tmp_path: Path) -> None:
    taken = int(kafka.bootstrap.rpartition(":")[2])
    with pytest.raises(KafkaStartError, match=rf"in use: 127\.0\.0\.1:{taken} "):
        EmbeddedKafka(tmp_path / "second", port=taken).start()


@pytest.mark.kafka
@pytest.mark.skipif("KAFKA_HOME" in os.environ, reason="KAFKA_HOME is set: its jars are not pinned")
def test_a_jar_with_a_wrong_digest_is_refused(tmp_path: Path) -> None:
    jars.class_path(jars.default_cache(), print)  # fill the cache
    cache = tmp_path / "cache"
    shutil.copytree(jars.default_cache() / "jars", cache / "jars")
    broken = cache / "jars" / "kafka-raft-4.3.0.jar"
    broken.write_bytes(broken.read_bytes()[:-1] + b"?")

    with pytest.raises(JarMismatchError) as refused:
        EmbeddedKafka(tmp_path / "state", cache=cache).start()
    for phrase in ("org.apache.kafka:kafka-raft:4.3.0", str(broken), "pinned", "delete that file"):
        assert phrase in str(refused.value)
    assert not (tmp_path / "state" / "data").exists()


def test_a_fetched_jar_with_a_wrong_digest_never_enters_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(expected: list[jars.Pin], folder: Path) -> list[Path]:
        for pin in expected:
            (folder / pin.file_name).write_bytes(b"not a jar")
        return [folder / pin.file_name for pin in expected]

    monkeypatch.setattr(jars, "_fetch", fetch)
    with pytest.raises(JarMismatchError, match=r"is not the jar that was pinned"):
        jars.class_path(tmp_path, print)
    assert list(tmp_path.rglob("*.jar")) == []


def test_the_pins_hold_coordinates_and_digests_and_no_address() -> None:
    expected = jars.pins()
    assert len(expected) == 46
    assert "://" not in jars.PINS.read_text()
    assert all(len(pin.sha256) == 64 and pin.group and pin.artifact and pin.version for pin in expected)


# ---------------------------------------------------------------------------------------- nothing is left behind


@pytest.mark.kafka
def test_no_broker_outlives_a_parent_that_was_killed(tmp_path: Path) -> None:
    # From a worker thread that ends: the broker must die with the process, and not with the thread.
    program = """
        import sys, threading, time
        from pathlib import Path
        from bailiff_devstack.kafka import EmbeddedKafka
        broker = EmbeddedKafka(Path(sys.argv[1]))
        starter = threading.Thread(target=broker.start)
        starter.start()
        starter.join()
        print(broker.pid, flush=True)
        time.sleep(600)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not wait_until(lambda: gone(pid), 1.0)
        parent.kill()
    assert wait_until(lambda: gone(pid), PATIENCE_S)


def test_children_die_with_a_parent_that_was_killed_unless_they_may_not(tmp_path: Path) -> None:
    program = """
        import sys, time
        from pathlib import Path
        from bailiff_devstack.processes import Processes
        here, argv = Path(sys.argv[1]), sys.argv[2:]
        mortal, kept = Processes(here / "mortal"), Processes(here / "kept", die_with_parent=False)
        print(mortal.start("a", argv), kept.start("b", argv), flush=True)
        time.sleep(600)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path), *SLEEP], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        dying, lasting = map(int, parent.stdout.readline().split())
        parent.kill()
    assert wait_until(lambda: gone(dying), PATIENCE_S)
    assert not gone(lasting)
    assert stop_recorded(tmp_path / "kept") == ["b"]
    assert gone(lasting)
    assert stop_recorded(tmp_path / "kept") == []


def test_a_reused_pid_is_not_signalled(tmp_path: Path) -> None:
    with subprocess.Popen(SLEEP, stdout=subprocess.DEVNULL, start_new_session=True) as stranger:
        now = Identity.of(stranger.pid)
        write_record(tmp_path, "earlier", Identity(now.pid, now.started - 1, now.boot))
        write_record(tmp_path, "before-reboot", Identity(now.pid, now.started, "another boot"))
        assert stop_recorded(tmp_path) == []
        assert stranger.poll() is None
        stranger.kill()


# ----------------------------------------------------------------------------------------------------- processes


def test_a_child_ends_although_an_interrupt_left_its_lock_taken(tmp_path: Path) -> None:
    """Ctrl-C inside `Popen.poll` leaves its lock held."""
    children = Processes(tmp_path)
    children.start("sleeper", [sys.executable, "-c", "import time; time.sleep(600)"], env={}, ready_url="http://127.0.0.1:1/")
    children._children["sleeper"].popen._waitpid_lock.acquire()
    (death,) = children.stop_all()
    assert death.code == -signal.SIGTERM


def test_processes_answer_die_and_stop_with_what_they_started(tmp_path: Path) -> None:
    port = free_port()
    family = "import subprocess, time; subprocess.Popen(['sleep', '600']); print('up', flush=True); time.sleep(600)"
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    with Processes(tmp_path) as children:
        children.start(
            "web",
            [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"],
            ready_url=f"http://127.0.0.1:{port}/",
            cwd=tmp_path,
        )
        children.start("family", [sys.executable, "-c", family])
        children.start("stubborn", [sys.executable, "-c", stubborn], env={"PYTHONUNBUFFERED": "1"})
        children.start("broken", [sys.executable, "-c", "raise SystemExit('no such policy')"])
        children.wait_ready("web")
        with pytest.raises(ValueError, match="already running"):
            children.start("web", SLEEP)

        assert wait_until(lambda: len(children.deaths()) == 1, PATIENCE_S)
        with pytest.raises(ProcessDiedError, match=r"(?s)broken exited with 1.*no such policy"):
            children.check()

        children.kill9("web")
        assert [(death.name, death.code) for death in children.deaths()] == [("web", -9), ("broken", 1)]
        with pytest.raises(ProcessDiedError, match="web exited with -9"):
            children.wait_ready("web")

        assert wait_until(lambda: all("up" in children.log(name).read_text() for name in ("family", "stubborn")), PATIENCE_S)
        families = Identity.of(children.pid("family")).session()
        assert len(families) == 2
        codes = {death.name: death.code for death in children.stop_all(grace_s=0.5)}
    assert codes == {"web": -9, "family": -signal.SIGTERM, "stubborn": -signal.SIGKILL, "broken": 1}
    assert not any(member.alive() for member in families)
    assert stop_recorded(tmp_path) == []


def test_a_child_that_never_answers_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    with Processes(tmp_path) as children:
        children.start("mute", SLEEP, ready_url=f"http://127.0.0.1:{free_port()}/health")
        assert wait_until(lambda: "here" in children.log("mute").read_text(), PATIENCE_S)
        with pytest.raises(TimeoutError, match=r"(?s)not ready within 0.2 s: mute.*here"):
            children.wait_ready(timeout_s=0.2)


def test_nobody_waits_for_services_whose_broker_has_ended(tmp_path: Path) -> None:
    with Processes(tmp_path) as children:
        children.start("waits", SLEEP, ready_url=f"http://127.0.0.1:{free_port()}/health")
        runs = iter((True, True, False))
        with pytest.raises(ProcessDiedError, match="Kafka has ended"):
            children.wait_ready(timeout_s=PATIENCE_S, broker=lambda: next(runs))


def test_ports_are_different_and_below_the_ephemeral_range() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    first_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(port < first_ephemeral for port in ports)


def test_a_stack_that_does_not_start_is_closed() -> None:
    class Half(Managed):
        closed = False

        def start(self) -> None:
            raise KafkaStartError("no port is free")

        def close(self) -> None:
            self.closed = True

    half = Half()
    with pytest.raises(KafkaStartError), half:
        pass
    assert half.closed
