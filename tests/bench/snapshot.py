"""Saving and restoring a plain program by its node, beside `dd` and a plain run of CRIU on the same program."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from bailiff_node_agent.runtime import Launch, TaskKey
from bailiff_node_agent.runtime.process import ProcessRuntime
from bailiff_node_agent.snapshots import Criu, find_criu, make_image, probe, sealed, verified

from .table import Row, Run

MB, LARGE_MB, TIMES = 1_000_000, 4000, 3
HOLDS = "import os, signal, sys; held = os.urandom(1_000_000) * int(sys.argv[1]); print('ready', flush=True); signal.pause()"
FIRST, SECOND = TaskKey("plain", 0, "0"), TaskKey("plain", 1, "0")
CRIU = os.environ.get("BAILIFF_CRIU", "criu")


def usable_criu() -> Criu | None:
    """The program; None where there is none, or it cannot be used."""
    found = find_criu(CRIU)
    return found if found is not None and not found.why_not else None


def measure(run: Run) -> list[Row]:
    """A process that holds this much memory; what a node promises is measured first, as an agent does when it starts."""
    criu = usable_criu()
    if criu is None:
        raise RuntimeError("no usable CRIU: be root, and put CRIU 4 into PATH or its path into BAILIFF_CRIU")
    run.folder.mkdir(parents=True, exist_ok=True)
    rate = probe(criu, run.folder, run.folder / "probe").bytes_per_s
    megabytes, times = (256, 1) if run.quick else (1000, TIMES)
    run.say(f"the node promises {rate / MB:.0f} MB/s; {megabytes} MB, {times} times")
    ours, plain, raw = list[tuple[float, float]](), list[tuple[float, float]](), list[tuple[float, float]]()
    for number in range(times):
        raw.append(_dd(run.folder / "raw", megabytes))
        plain.append(_plain(criu.program, run.folder / f"plain-{number}", megabytes))
        ours.append(asyncio.run(_ours(criu.program, run.folder / f"ours-{number}", megabytes)))
    rows = []
    for at, what, of_plain, of_dd in (
        (0, "saved: stopped, written, hashed, on disk", "`criu dump`, on disk", "`dd`, on disk"),
        (1, "restored: hashed, continued", "`criu restore`", "`dd` of them from the page cache"),
    ):
        took, by_criu, by_dd = (median(each[at] for each in measured) for measured in (ours, plain, raw))
        baseline = f"s: {of_plain} of the same program; {by_dd:.2f} s: {of_dd}"
        detail = {"ours_s": ours, "plain_s": plain, "dd_s": raw}
        rows.append(Row(f"program of {megabytes} MB {what}, median of {times}", took, "s", "≤ 1.3 ×", by_criu, baseline, detail))
        rate_of = "the same, save" if at == 0 else "the same, restore"
        rows.append(Row(rate_of, megabytes / took, "MB/s", "-", megabytes / by_dd, f"MB/s: {of_dd}"))
    if not run.quick:
        rows.append(_promised(asyncio.run(_ours(criu.program, run.folder / "large", LARGE_MB))[0], LARGE_MB * MB / rate))
    return rows


def _promised(took: float, promised: float) -> Row:
    met = "met" if 0.7 <= took / promised <= 1.3 else "**missed**"
    what = f"program of {LARGE_MB} MB saved, beside what `bailiff nodes` says of the node"
    return Row(what, took, "s", f"± 30 %: {met}", promised, "s: promised")


async def _ours(criu: str, folder: Path, megabytes: int) -> tuple[float, float]:
    """Seconds to save, and to restore, as the agent does both."""
    snapshots, logs = folder / "plain", folder / "logs"
    logs.mkdir(parents=True)
    runtime = ProcessRuntime(folder / "state", criu=criu)
    launch = Launch(FIRST, [sys.executable, "-I", "-S", "-c", HOLDS, str(megabytes)], saves=True, log_dir=logs, working_dir="/")
    try:
        await runtime.start(launch)
        while "ready" not in (logs / f"{FIRST}.log").read_text():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.05)
        began = time.perf_counter()
        image = make_image(snapshots, 0, 0)
        dumped = await runtime.save(FIRST, image, "1")
        if dumped.why_not:
            raise RuntimeError(dumped.why_not)
        digest, size = await asyncio.to_thread(sealed, image, {"runtime": dict(dumped.facts)})
        saving = time.perf_counter() - began
        assert size >= megabytes * MB
        await runtime.kill(FIRST)
        await runtime.wait_exit()
        began = time.perf_counter()
        image, _ = await asyncio.to_thread(verified, snapshots, 0, 0, digest)
        await runtime.start(replace(launch, key=SECOND, restore=image))
        restored = await runtime.restored(SECOND)
        if restored is None or restored.why_not:
            raise RuntimeError(restored.why_not if restored is not None else "it has ended")
        return saving, time.perf_counter() - began
    finally:
        for key in (FIRST, SECOND):
            if runtime.folders.task(key).exists():
                await runtime.kill(key)
        await runtime.close()
        shutil.rmtree(folder)


def _plain(criu: str, folder: Path, megabytes: int) -> tuple[float, float]:
    """The same by CRIU alone, each file brought to disk, as a snapshot that outlives a power cut needs."""
    images = folder / "images"
    images.mkdir(parents=True)
    log, pidfile = folder / "log", folder / "pid"
    with log.open("w") as output:
        command = ["setsid", sys.executable, "-I", "-S", "-c", HOLDS, str(megabytes)]
        program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=False)
    while "ready" not in log.read_text():
        time.sleep(0.05)
    began = time.perf_counter()
    subprocess.run([criu, "dump", "--tree", str(program.pid), "--images-dir", str(images), "--manage-cgroups=ignore"], check=True)
    for each in images.iterdir():
        handle = os.open(each, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
    saving = time.perf_counter() - began
    program.wait()
    began = time.perf_counter()
    restore = [criu, "restore", "--restore-detached", "--pidfile", str(pidfile), "--images-dir", str(images)]
    subprocess.run([*restore, "--manage-cgroups=ignore"], check=True)
    restoring = time.perf_counter() - began
    os.kill(int(pidfile.read_text()), 9)
    shutil.rmtree(folder)
    return saving, restoring


def _dd(path: Path, megabytes: int) -> tuple[float, float]:
    """Seconds to write as many random bytes to the disk, and to read them from the page cache."""
    source = path.with_suffix(".source")
    source.write_bytes(os.urandom(MB) * megabytes)
    began = time.perf_counter()
    subprocess.run(["dd", f"if={source}", f"of={path}", "bs=4M", "conv=fsync", "status=none"], check=True)
    writing = time.perf_counter() - began
    began = time.perf_counter()
    subprocess.run(["dd", f"if={path}", "of=/dev/null", "bs=4M", "status=none"], check=True)
    reading = time.perf_counter() - began
    path.unlink()
    source.unlink()
    return writing, reading
