"""A job that leaves every kind of entry in every folder that it may write, and ignores TERM: `python leaving_job.py`.

It runs in a container as well, beside a copy of `hostile_files.py`; it says on its output how far it is.
"""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from hostile_files import KINDS, nest, spoil

FOLDERS = ("BAILIFF_CONTROL_DIR", "BAILIFF_SCRATCH_DIR", "BAILIFF_CHECKPOINT_DIR")
WIDE, LINKS, MANIFEST = 20_000, 2_000, 1 << 20
SAID = "everything is left"


def leave(folder: Path) -> None:
    """One of each, many of one, and a tree of all of them."""
    own = folder / "own"
    own.mkdir()
    (own / "precious").touch()
    for kind, make in KINDS.items():
        with suppress(OSError):
            make(folder / kind, own)
    nest(folder / "deep")
    wide = folder / "wide"
    wide.mkdir()
    for number in range(WIDE):
        (wide / str(number)).touch()
    for seed in range(3):
        spoil(folder / f"tree-{seed}", seed, own)
    folder.chmod(0)


def replace_control(folder: Path) -> None:
    """Other things in the place of what the node reads and writes there."""
    for name, kind in {"steps": "fifo", "notice.json": "folder", "socket": "link to itself", "go": "device"}.items():
        (folder / name).unlink(missing_ok=True)
        with suppress(OSError):
            KINDS[kind](folder / name, folder)


def spoil_checkpoints(folder: Path) -> None:
    """Manifests without end, of every kind, and through links."""
    real = folder / "attempt-0001" / "step-00000001"
    real.mkdir(parents=True)
    (real / "manifest.json").write_bytes(b"[" * MANIFEST)
    for number, kind in enumerate(KINDS, start=2):
        step = folder / "attempt-0001" / f"step-{number:08}"
        step.mkdir()
        with suppress(OSError):
            KINDS[kind](step / "manifest.json", folder)
    for number in range(2, LINKS):
        (folder / f"attempt-{number:04}").symlink_to("attempt-0001")


def main() -> None:
    """Leave it all, then wait for KILL."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    control, _, checkpoints = folders = [Path(os.environ[name]) for name in FOLDERS]
    if not (checkpoints / "attempt-0001").exists():
        spoil_checkpoints(checkpoints)
        replace_control(control)
        for folder in folders:
            leave(folder)
    for _ in range(200):
        os.write(1, b"\x1b]0;title\x07\xff\xfe\0" * 4_000)
    os.write(1, f"\n{SAID}\n".encode())
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
