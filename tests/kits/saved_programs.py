"""Plain programs that know nothing of Bailiff, each with something of its own that a snapshot must bring back.

Each writes `ready` when it is to be saved, goes on when the file `go` is there, and ends with a line that says what became of it.
"""

import asyncio
import subprocess
import sys
from functools import partial
from pathlib import Path

DEVICE = Path("/dev/loop-control")
PRELUDE = """
import ctypes, mmap, os, signal, socket, sys, threading, time
def wait():
    print("ready", flush=True)
    while not os.path.exists("go"):
        time.sleep(0.01)
"""

EXCHANGES = """
import struct
signal.signal(signal.SIGTERM, lambda *_: (print("had TERM", flush=True), os._exit(3)))
rank, port_file = int(os.environ["RANK"]), "port"
if rank == 0:
    listening = socket.create_server(("127.0.0.1", 0))
    with open("port.new", "w") as file:
        file.write(str(listening.getsockname()[1]))
    os.rename("port.new", port_file)
    peer, _ = listening.accept()
    listening.close()
else:
    while not os.path.exists(port_file):
        time.sleep(0.01)
    peer = socket.create_connection(("127.0.0.1", int(open(port_file).read())))
total, rounds = rank + 1, 0
def got(count):
    data = b""
    while len(data) < count:
        more = peer.recv(count - len(data))
        if not more:
            raise ConnectionResetError
        data += more
    return data
def exchanged(is_last):
    try:
        peer.sendall(struct.pack("!Q?", total, is_last) + bytes(100_000))
        found = struct.unpack("!Q?", got(9))
        assert got(100_000) == bytes(100_000)
        return found
    except ConnectionError:
        while True:
            time.sleep(0.01)  # the other task has ended first, by TERM
while True:
    is_last = os.path.exists("go")
    other, others_last = exchanged(is_last)
    total, rounds = (total + 3 * other) % 1_000_003 if rank == 0 else (other + 3 * total) % 1_000_003, rounds + 1
    if rounds == 3:
        print("ready", flush=True)
    if is_last or others_last:
        break
print("went on", rounds > 3, flush=True)
open(f"total-{rank}", "w").write(f"{rounds} {total}")
"""
"""Two tasks that exchange numbers over TCP, and write down what they have come to."""

PROGRAMS: dict[str, tuple[str, str]] = {
    "a process tree": (
        """
children = []
for number in range(3):
    pid = os.fork()
    if pid == 0:
        while not os.path.exists("go"):
            time.sleep(0.01)
        os._exit(number + 10)
    children.append(pid)
wait()
print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children])
""",
        "[10, 11, 12]",
    ),
    "threads with a lock": (
        """
lock, done, total = threading.Lock(), threading.Event(), [0]
def work():
    done.wait()
    for _ in range(1000):
        with lock:
            total[0] += 1
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
wait()
done.set()
for thread in threads:
    thread.join()
print(total[0])
""",
        "4000",
    ),
    "pipes with something in them": (
        """
there, back = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(there[1])
    while True:
        data = os.read(there[0], 100)
        if not data:
            os._exit(0)
        os.write(back[1], data.upper())
os.close(there[0])
os.write(there[1], b"before ")
time.sleep(0.1)
wait()
os.write(there[1], b"after")
os.close(there[1])
answer = b""
while len(answer) < 12:
    answer += os.read(back[0], 100)
print(answer.decode())
""",
        "BEFORE AFTER",
    ),
    "memory shared by two processes": (
        """
shared = mmap.mmap(-1, 4096)
shared[:5] = b"hello"
if os.fork() == 0:
    while not os.path.exists("go"):
        time.sleep(0.01)
    shared[5:11] = shared[:5].upper() + b"!"
    os._exit(0)
wait()
os.wait()
print(bytes(shared[:11]).decode())
""",
        "helloHELLO!",
    ),
    "shared memory with a name": (
        """
from multiprocessing import shared_memory
block = shared_memory.SharedMemory(create=True, size=4096)
block.buf[:4] = b"name"
wait()
print(bytes(block.buf[:4]).decode())
block.close()
block.unlink()
""",
        "name",
    ),
    "an open file and a deleted one": (
        """
kept, gone = open("kept", "w+"), open("gone", "w+")
kept.write("kept "); kept.flush()
gone.write("gone "); gone.flush(); os.unlink("gone")
wait()
for file in (kept, gone):
    file.write("on"); file.flush(); file.seek(0)
print(kept.read(), gone.read(), os.path.exists("gone"))
""",
        "kept on gone on False",
    ),
    "a port on which it listens": (
        """
listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
wait()
client = socket.create_connection(("127.0.0.1", port))
connection, _ = listener.accept()
connection.sendall(b"answered")
print(client.recv(100).decode())
""",
        "answered",
    ),
    "a child that ignores TERM": (
        """
pid = os.fork()
if pid == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while not os.path.exists("go"):
        time.sleep(0.01)
    os._exit(5)
wait()
os.kill(pid, signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""",
        "5",
    ),
    "a timer and a handler": (
        """
rang = []
signal.signal(signal.SIGALRM, lambda *_: rang.append(1))
signal.setitimer(signal.ITIMER_REAL, 3600)
wait()
left = signal.setitimer(signal.ITIMER_REAL, 0.01)[0]
while not rang:
    time.sleep(0.01)
print(0 < left <= 3600, len(rang))
""",
        "True 1",
    ),
    "its own pid": ("pid = os.getpid()\nwait()\nprint(pid == os.getpid() == int(os.readlink('/proc/self')))", "True"),
}

REFUSED: dict[str, tuple[str, str]] = {
    "a TCP connection": (
        """
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
wait()
connection.sendall(b"still there")
print("went on")
""",
        "it has an open TCP connection",
    ),
    "a socket to another process": (
        """
connection = socket.socket(socket.AF_UNIX)
connection.connect("\\0" + sys.argv[2])
wait()
connection.sendall(b"still there")
print("went on")
""",
        "it has a socket to another process",
    ),
    "System V shared memory": (
        """
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
block = libc.shmget(0, 4096, 0o1600)
libc.shmat(block, None, 0)
libc.shmctl(block, 0, None)
wait()
print("went on")
""",
        "it has System V shared memory, semaphores or queues",
    ),
    "a device": (
        """
device = open("/dev/loop-control", "rb")
wait()
print("went on")
""",
        "it has a device open",
    ),
    "io_uring": (
        """
parameters = (ctypes.c_char * 120)()
ring = ctypes.CDLL(None).syscall(425, 4, parameters)
assert ring >= 0
wait()
print("went on")
""",
        "it uses io_uring",
    ),
}
"""Programs that cannot be saved, and the reason."""

HASHES = """
import hashlib, os, sys, threading, time

folder, scratch = sys.argv[1], open(sys.argv[1] + "/scratch", "w+")
os.unlink(folder + "/scratch")
state, ticks = hashlib.sha256(b"seed").digest(), []
clock = threading.Thread(target=lambda: [ticks.append(1) or time.sleep(0.01) for _ in range(10**9)], daemon=True)
clock.start()
ask, answer = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(ask[1])
    while number := os.read(ask[0], 32):
        os.write(answer[1], hashlib.sha256(number).digest())
    os._exit(0)
os.close(ask[0])
for stage in range(3):
    for _ in range(20_000):
        os.write(ask[1], state)
        state = bytes(a ^ b for a, b in zip(state, os.read(answer[0], 32)))[:31] + b"x"
        scratch.write(state.hex()[:2])
    print("stage", stage, flush=True)
    while not os.path.exists(f"{folder}/data-{stage}"):
        time.sleep(0.02)
scratch.flush()
scratch.seek(0)
print("result", state.hex(), hashlib.sha256(scratch.read().encode()).hexdigest(), os.getpid() == os.getpgid(0), flush=True)
"""
"""Hashes in three stages, with a thread, a child and a deleted file; after each it waits for a file. It says what came of it."""


def result_in(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("result")]


async def result_of_one_that_was_never_touched(folder: Path) -> list[str]:
    for stage in range(3):
        (folder / f"data/data-{stage}").touch()
    alone = [sys.executable, "-I", "-S", str(folder / "program.py"), str(folder / "data")]
    run_alone = partial(subprocess.run, alone, capture_output=True, text=True, check=True, start_new_session=True)
    return result_in((await asyncio.to_thread(run_alone)).stdout)
