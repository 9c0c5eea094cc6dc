"""Slurm from Debian's packages, unpacked into a folder: munged, mariadbd, slurmdbd, slurmctld and one slurmd.

Everything listens on 127.0.0.1. GPUs are empty files. Preemption requeues jobs of the partition `low`, and cancels those of
`cancel`, for jobs of `high`.
"""

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bailiff_devstack.ports import free_ports

PACKAGES = ("slurmctld", "slurmd", "slurmdbd", "slurm-client", "munge", "mariadb-server-core")
PATIENCE_S = float(os.environ.get("BAILIFF_TEST_PATIENCE_S", "60"))
GPUS = 8


def unpack(into: Path) -> str:
    """Downloads the packages and what they need, and unpacks them. Returns why it cannot, or nothing."""
    if os.getuid() != 0:
        return "munged and slurmd run as root here"
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return "no apt-get: this test takes Slurm from Debian's packages"
    debs = into / "debs"
    (debs / "partial").mkdir(parents=True, exist_ok=True)
    command = ["apt-get", "install", "--download-only", "--yes", "--reinstall", "--no-install-recommends"]
    got = subprocess.run([*command, "-o", f"Dir::Cache::archives={debs}", *PACKAGES], capture_output=True, text=True, check=False)
    if got.returncode:
        return f"Debian's packages of Slurm cannot be downloaded: {got.stderr.strip()[-200:]}"
    for package in sorted(debs.glob("*.deb")):
        subprocess.run(["dpkg", "-x", package, into / "root"], check=True)
    for name in ("slurmctld", "slurmd", "slurmstepd"):  # as Debian's alternatives do; each program knows itself by this name
        link = into / "root/usr/sbin" / name
        link.unlink(missing_ok=True)
        link.symlink_to(f"{name}-wlm")
    return ""


class Slurm:
    """One cluster below `at`; `root` holds the unpacked packages."""

    def __init__(self, at: Path, root: Path) -> None:
        self.at, self._root = at, root
        self._processes: list[tuple[str, subprocess.Popen[bytes]]] = []
        libraries = root / "usr/lib/x86_64-linux-gnu"
        folders = [root / "usr/sbin", root / "usr/bin", root / "usr/lib/x86_64-linux-gnu/slurm-wlm"]
        self.env = {
            **os.environ,
            "PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]]),
            "LD_LIBRARY_PATH": f"{libraries}:{libraries}/slurm-wlm",
            "SLURM_CONF": str(at / "slurm.conf"),
            "TZ": "Europe/Berlin",
        }

    def start(self) -> None:
        """Starts everything, and waits until the node is idle."""
        for name in ("munge", "ctld", "slurmd", "mysql", "dev"):
            (self.at / name).mkdir(parents=True)
        self._database, self._dbd, self._ctld, self._slurmd = free_ports(4)
        self._munge()
        self._mariadb()
        self._slurmdbd()
        self._controller()
        self.until("the node is idle", lambda: "idle" in self.run("sinfo", "--noheader", "--format=%T", check=False))

    def run(self, *command: str, check: bool = True) -> str:
        """Standard output of a Slurm command."""
        found = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        if check and found.returncode:
            raise AssertionError(f"{' '.join(command)}: {found.stderr}")
        return found.stdout

    def submit(self, *options: str, script: str) -> str:
        """Submits a batch script and returns the job's number."""
        path = self.at / f"script-{secrets.token_hex(4)}.sh"
        path.write_text(f"#!/bin/bash\n{script}\n")
        return self.run("sbatch", "--parsable", "--output=/dev/null", *options, str(path)).strip()

    def until(self, what: str, true: Callable[[], bool]) -> None:
        """Waits for a condition."""
        limit = time.monotonic() + 2 * PATIENCE_S
        while not true():
            for name, process in self._processes:
                if process.poll() is not None:
                    raise AssertionError(f"{name} ended: {(self.at / f'{name}.out').read_text()[-2000:]}")
            if time.monotonic() > limit:
                logs = "\n".join(path.read_text(errors="replace")[-1500:] for path in sorted(self.at.glob("*.out")))
                raise AssertionError(f"waited in vain until {what}\n{logs}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Ends what was started: all jobs, also those that were requeued, and then the services."""
        try:
            self.run("scancel", "--user=root", check=False)
            self.until("no job is left", lambda: not self.run("squeue", "--noheader", check=False).strip())
        finally:
            for _, process in reversed(self._processes):
                process.terminate()
                try:
                    process.wait(15)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def _spawn(self, name: str, *command: str | Path) -> None:
        with (self.at / f"{name}.out").open("ab") as out:
            process = subprocess.Popen(list(map(str, command)), stdout=out, stderr=out, env=self.env, start_new_session=True)
        self._processes.append((name, process))

    def _munge(self) -> None:
        key, folder = self.at / "munge/key", self.at / "munge"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        files = [f"--{name}={folder}/{name}" for name in ("socket", "pid-file", "log-file", "seed-file")]
        self._spawn("munged", "munged", "--foreground", "--force", f"--key-file={key}", *files)
        self.until("munged listens", (folder / "socket").exists)

    def _mariadb(self) -> None:
        data, share = self.at / "mysql", self._root / "usr/share/mysql"
        common = ["--no-defaults", f"--datadir={data}", f"--lc-messages-dir={share}", "--user=root"]
        tables = "".join((share / name).read_text() for name in ("mysql_system_tables.sql", "mysql_system_tables_data.sql"))
        (data / "mysql").mkdir()
        bootstrap = f"use mysql;\n{tables}"
        made = subprocess.run(
            ["mariadbd", *common, "--bootstrap"], input=bootstrap, env=self.env, capture_output=True, text=True, check=False
        )
        assert made.returncode == 0, made.stderr[-2000:]
        options = [
            f"--port={self._database}",
            "--bind-address=127.0.0.1",
            f"--socket={self.at}/mysql.sock",
            "--skip-grant-tables",
        ]
        self._spawn("mariadbd", "mariadbd", *common, *options, "--skip-networking=0", f"--pid-file={self.at}/mysql.pid")
        self.until("the database listens", lambda: listens(self._database))

    def _slurmdbd(self) -> None:
        lines = [
            *("DbdHost=localhost", "DbdAddr=127.0.0.1", f"DbdPort={self._dbd}", "SlurmUser=root"),
            *(f"AuthInfo=socket={self.at}/munge/socket", f"PluginDir={self._plugins}", "StorageType=accounting_storage/mysql"),
            *("StorageHost=127.0.0.1", f"StoragePort={self._database}", "StorageUser=root", "StorageLoc=slurm"),
            *(f"PidFile={self.at}/slurmdbd.pid", "DebugLevel=info"),
        ]
        conf = self.at / "slurmdbd.conf"
        conf.write_text("\n".join(lines) + "\n")
        conf.chmod(0o600)
        self._configure()
        self._spawn("slurmdbd", "slurmdbd", "-D")
        self.until("slurmdbd listens", lambda: listens(self._dbd))
        for command in (
            *("add cluster story", "add qos urgent set priority=100", "modify qos normal set priority=10"),
            *("add account vision Fairshare=3", "add account research", "add account speech parent=research"),
            "add user root account=vision QosLevel=normal,urgent DefaultQOS=normal",
            "add user root account=speech QosLevel=normal,urgent DefaultQOS=normal",
        ):
            self.run("sacctmgr", "--immediate", *command.split())

    @property
    def _plugins(self) -> Path:
        return self._root / "usr/lib/x86_64-linux-gnu/slurm-wlm"

    def _configure(self) -> None:
        host = socket.gethostname()
        lines = [
            *("ClusterName=story", f"SlurmctldHost={host}(127.0.0.1)", "SlurmUser=root", "SlurmdUser=root"),
            *(f"SlurmctldPort={self._ctld}", f"SlurmdPort={self._slurmd}", f"PluginDir={self._plugins}", "AuthType=auth/munge"),
            *(f"AuthInfo=socket={self.at}/munge/socket,cred_expire=5", "CredType=cred/munge"),
            *(f"StateSaveLocation={self.at}/ctld", f"SlurmdSpoolDir={self.at}/slurmd"),
            *(f"SlurmctldPidFile={self.at}/slurmctld.pid", f"SlurmdPidFile={self.at}/slurmd.pid"),
            *(f"SlurmctldLogFile={self.at}/slurmctld.out", f"SlurmdLogFile={self.at}/slurmd.out"),
            *("CommunicationParameters=NoCtldInAddrAny,NoInAddrAny", "ProctrackType=proctrack/linuxproc"),
            *("TaskPlugin=task/none", "SwitchType=switch/none", "MpiDefault=none", "JobAcctGatherType=jobacct_gather/none"),
            *("AccountingStorageType=accounting_storage/slurmdbd", "AccountingStorageHost=127.0.0.1"),
            *(f"AccountingStoragePort={self._dbd}", f"AccountingStoragePass={self.at}/munge/socket"),
            *("AccountingStorageTRES=gres/gpu,gres/gpu:a100", "AccountingStorageEnforce=limits,qos"),
            *("SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU_Memory", "GresTypes=gpu"),
            *("PriorityType=priority/multifactor", "DefMemPerCPU=500", "PreemptType=preempt/partition_prio"),
            *("PreemptMode=REQUEUE", "JobRequeue=1", "KillWait=1", "ReturnToService=2"),
            *("SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,bf_interval=1", "SlurmdParameters=config_overrides"),
            *("MailProg=/bin/true", "MinJobAge=5"),
            f"NodeName=gpu01 NodeHostname={host} NodeAddr=127.0.0.1 CPUs=64 RealMemory=100000 Gres=gpu:a100:{GPUS} State=UNKNOWN",
            "PartitionName=low Nodes=gpu01 Default=YES PriorityTier=1 PreemptMode=REQUEUE MaxTime=INFINITE",
            "PartitionName=cancel Nodes=gpu01 PriorityTier=1 PreemptMode=CANCEL MaxTime=INFINITE",
            "PartitionName=high Nodes=gpu01 PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE",
        ]
        (self.at / "slurm.conf").write_text("\n".join(lines) + "\n")
        for number in range(GPUS):  # Slurm counts no GPUs without files; nobody opens these
            (self.at / f"dev/gpu{number}").touch()
        gres = f"NodeName=gpu01 Name=gpu Type=a100 File={self.at}/dev/gpu[0-{GPUS - 1}]\n"
        (self.at / "gres.conf").write_text(gres)

    def _controller(self) -> None:
        conf = self.at / "slurm.conf"
        self._spawn("slurmctld", "slurmctld", "-D", "-f", conf)
        self.until("slurmctld listens", lambda: listens(self._ctld))
        self.until(
            "the database knows GPUs", lambda: "gres|gpu" in self.run("sacctmgr", "show", "tres", "--parsable2", check=False)
        )
        limit = "modify account vision set GrpTRES=gres/gpu=6"
        self.run("sacctmgr", "--immediate", *limit.split())
        self._spawn("slurmd", "slurmd", "-D", "-N", "gpu01", "-f", conf, "-d", self._root / "usr/sbin/slurmstepd")


def listens(port: int) -> bool:
    """Whether something accepts connections there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
