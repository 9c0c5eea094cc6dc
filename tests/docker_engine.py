"""The Docker engine that tests of containers need, with an image that is there already; or the reason why they are skipped."""

import json
import subprocess

import pytest

IMAGE = "debian:bookworm-slim"


def docker(*arguments: str, timeout: float = 120, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """What the command `docker` says."""
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=timeout, check=False, input=stdin)


def need_engine(image: str = IMAGE) -> None:
    """Skip where no engine answers, or none that has this image: nothing is pulled."""
    try:
        answer = docker("info", "--format", "{{.ServerVersion}}", timeout=20)
    except FileNotFoundError:
        pytest.skip("no Docker: there is no command named docker")
    except subprocess.TimeoutExpired:
        pytest.skip("no Docker engine answers within 20 s")
    if answer.returncode:
        pytest.skip(f"no Docker engine answers: {answer.stderr.strip()}")
    if docker("image", "inspect", image).returncode:
        pytest.skip(f"the Docker engine has no image {image}")


def containers_of(folder: object) -> list[str]:
    """The containers that were started for this folder's tasks, whatever has become of them."""
    return docker("ps", "-aq", "--filter", f"label=org.bailiff.folder={folder}").stdout.split()


def about(container: str) -> dict[str, object]:
    """What the engine says of it."""
    found: list[dict[str, object]] = json.loads(docker("inspect", container).stdout)
    return found[0]
