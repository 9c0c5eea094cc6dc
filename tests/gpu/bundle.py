"""What `make test-gpu` needs on a machine that nothing can be fetched to, as a folder of wheels.

    python -m tests.gpu.bundle build FOLDER [PYTHON]    here: download the pinned wheels, for Linux on x86-64 (PYTHON: 3.12)
    python3 tests/gpu/bundle.py run FOLDER [OPTION…]    there: install them into a temporary folder, and measure

Kafka and Java are not in it. The pool runs on the in-memory bus, and the demo is left out. The machine's own Python needs pip and
numpy; if it has PyTorch, that is used. Standard library only.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = (
    *("", "libs/core", "libs/bus", "libs/log", "libs/service", "libs/client", "libs/sim", "libs/job", "libs/devstack"),
    *("services/admission", "services/victim_selection", "services/eviction_executor", "services/node_agent"),
)
NEEDED = (
    *("annotated-types", "cffi", "cryptography", "iniconfig", "nvidia-ml-py", "orjson", "packaging", "pluggy"),
    *("prometheus-client", "pycparser", "pydantic", "pydantic-core", "pydantic-settings", "pygments", "pytest"),
    *("pytest-asyncio", "pytest-timeout", "python-dotenv", "pyyaml", "structlog", "typing-extensions", "typing-inspection"),
)
PLATFORMS = (*(f"--platform=manylinux_2_{glibc}_x86_64" for glibc in range(39, 16, -1)), "--platform=manylinux2014_x86_64")


def pinned() -> dict[str, str]:
    """The pinned requirements with their hashes, by name."""
    found: dict[str, str] = {}
    for file in ("dev.txt", "runtime.txt"):
        text = (ROOT / "requirements" / file).read_text(encoding="utf-8")
        for block in re.split(r"\n(?=\S)", text):
            name = re.match(r"[A-Za-z0-9._-]+(?===)", block)
            if name:
                lines = [line for line in block.splitlines() if not line.strip().startswith("#")]
                found[re.sub(r"[-_.]+", "-", name[0]).lower()] = "\n".join(lines)
    return found


def build(folder: Path, python: str) -> None:
    """Download the wheels. Raises `CalledProcessError`."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.whl"):
        old.unlink()
    requirements = pinned()
    target = ("--no-deps", "--only-binary=:all:", f"--python-version={python}", "--implementation=cp", *PLATFORMS)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(requirements[name] for name in NEEDED))
        file.flush()
        download = ("download", "--quiet", "--disable-pip-version-check", "--require-hashes", "-d", str(folder), "-r", file.name)
        subprocess.run([sys.executable, "-m", "pip", *download, *target], check=True)


def run(folder: Path, options: list[str]) -> int:
    """Measure with these wheels. The exit code is that of `python -m tests.gpu`."""
    wheels = sorted(map(str, folder.glob("*.whl")))
    if not wheels:
        sys.stderr.write(f"{folder} has no wheels: build it with `make gpu-bundle`\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="bailiff-bundle-") as site:
        install = [
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-index",
            "--no-deps",
            "--no-compile",
            "--target",
            site,
        ]
        subprocess.run([sys.executable, "-m", "pip", *install, *wheels], check=True)
        path = os.pathsep.join([site, *(str(ROOT / source) for source in SOURCES)])
        command = [sys.executable, "-m", "tests.gpu", *options]
        return subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, check=False).returncode


def main(arguments: list[str]) -> int:
    """See above."""
    match arguments:
        case ["build", folder, *python]:
            build(Path(folder), python[0] if python else "3.12")
            return 0
        case ["run", folder, *options]:
            return run(Path(folder), options)
    sys.stderr.write(f"{__doc__}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
