"""The parser of job files and options: accepted values, and the errors for invalid ones."""

from pathlib import Path

import pytest

from bailiff.client import job_parser
from bailiff.client.errors import ClientError, ExitCode
from bailiff_core.humanize import memory_text
from bailiff_core.model import amounts


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("8GiB", 8 * 2**30),
        ("512 MiB", 512 * 2**20),
        ("1.5GiB", 3 * 2**29),
        ("16GB", 16 * 10**9),
        ("8Gi", 8 * 2**30),
        (4_194_304, 4_194_304),
    ],
)
def test_memory(text: object, bytes_: int) -> None:
    assert job_parser.memory(text) == bytes_


@pytest.mark.parametrize(("text", "milli"), [("2", 2000), ("500m", 500), ("1.5", 1500), (2, 2000), (0.5, 500), (0, 0)])
def test_cpu(text: object, milli: int) -> None:
    assert amounts.cores(text) == milli


@pytest.mark.parametrize(("text", "milli"), [("4", 4000), (1, 1000), ("0.5", 500)])
def test_gpus(text: object, milli: int) -> None:
    assert job_parser.gpus(text) == milli


@pytest.mark.parametrize(("text", "seconds"), [("90", "90"), ("5m", "300"), ("500ms", "0.5"), (2.5, "2.5")])
def test_seconds(text: object, seconds: str) -> None:
    assert job_parser.seconds(text) == seconds


@pytest.mark.parametrize(
    ("read", "value"),
    [
        *((job_parser.memory, "8 pizza"), (job_parser.memory, "-1GiB"), (job_parser.memory, "0.3B"), (job_parser.memory, None)),
        *((job_parser.memory, ""), (job_parser.memory, "1e3"), (amounts.cores, "many"), (amounts.cores, "0.0001")),
        *((amounts.cores, "-2"), (amounts.cores, "NaN"), (amounts.cores, "Infinity"), (job_parser.gpus, "500m")),
        *((job_parser.gpus, True), (job_parser.gpus, [1]), (job_parser.seconds, "soon"), (job_parser.seconds, "")),
        (job_parser.seconds, "NaN"),
    ],
)
def test_invalid_values_name_what_was_found(read: object, value: object) -> None:
    with pytest.raises(amounts.InvalidValue, match=r"expected .*, found "):
        read(value)  # type: ignore[operator]


def test_memory_is_printed_with_binary_units() -> None:
    assert [memory_text(amount) for amount in (8 * 2**30, 3 * 2**29, 512, 2**40)] == ["8GiB", "1.5GiB", "512B", "1TiB"]


# --- a job


def test_one_kind_of_task() -> None:
    job = job_parser.job_from(
        {
            "name": "bert",
            "gpus": "4",
            "tasks": 2,
            "cpu": "500m",
            "memory": "8GiB",
            "class": "train",
            "grace": "1m",
            "command": ["a"],
        }
    )
    (group,) = job.demand.tasks
    assert (group.count, group.gpu_milli, group.cpu_milli, group.memory_bytes) == (2, 4000, 500, 8 * 2**30)
    assert (job.demand.job, job.demand.priority_class, job.demand.grace) == ("bert", "train", 60_000_000)


def test_simulated_job_needs_no_command() -> None:
    job = job_parser.job_from({"name": "sim", "sim_run_for": "2m", "env": {"A": "b"}})
    assert job.spec.runtime == "simulated"
    assert job.spec.env == {"A": "b", "BAILIFF_SIM_RUN_FOR": "120"}


def write_job_file(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "job.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_job_file_with_groups(tmp_path: Path) -> None:
    text = """\
name: fine-tune
groups:
  - tasks: 1
    memory: 4GiB
  - tasks: 2
    gpus: 2
    gpu-model: H100-80GB
    node-labels: {zone: a}
command: python train.py
"""
    job = job_parser.job_from(*job_parser.read_job_file(write_job_file(tmp_path, text)))
    assert [(group.count, group.gpu_milli) for group in job.demand.tasks] == [(1, 0), (2, 2000)]
    assert job.demand.tasks[1].gpu_models == ("H100-80GB",)
    assert job.demand.tasks[1].node_labels == {"zone": "a"}
    assert job.spec.command == "python train.py"


FAULTS = [
    ("name: a\nclas: train\ncommand: [x]\n", ":2: clas: no such field; did you mean class?"),
    ("name: a\nmemory: 8 pizza\ncommand: [x]\n", ":2: memory: expected an amount of memory per task"),
    ("name: Fine Tune\ncommand: [x]\n", ":1: name: expected a name of at most 63 characters"),
    ("name: a\ngrace: long\ncommand: [x]\n", ":2: grace: 'long' is not a duration"),
    ("name: a\ngroups:\n  - tasks: 0\n    gpus: 1\ncommand: [x]\n", ":3: groups.0.tasks: expected a whole number ≥ 1, found 0"),
    ("name: a\ngroups:\n  - gpus: 1\n  - gpus: lots\ncommand: [x]\n", ":4: groups.1.gpus: expected a number of GPUs"),
    ("name: a\ngpus: 1\ngroups:\n  - gpus: 1\ncommand: [x]\n", ":2: gpus: cannot be combined with groups"),
    ("name: a\n", ": command: expected a value, found nothing"),
    ("- a\n", ":1: expected the fields of a job, found a list of 1"),
    ("name: [\n", ": not YAML"),
    ("name: a\nname: b\n", ":2: name occurs twice"),
]


@pytest.mark.parametrize(("text", "expected"), FAULTS)
def test_faults_of_a_job_file_name_line_and_field(tmp_path: Path, text: str, expected: str) -> None:
    file = write_job_file(tmp_path, text)
    with pytest.raises(ClientError) as caught:
        job_parser.job_from(*job_parser.read_job_file(file))
    assert expected in caught.value.text
    assert caught.value.text.startswith(str(file))
    assert caught.value.exit_code is ExitCode.USAGE


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(ClientError) as caught:
        job_parser.job_from({"name": "A B", "gpus": "x", "cpu": "y", "command": ["z"]})
    assert [line.split(":")[0] for line in caught.value.text.splitlines()] == ["--gpus", "--cpu", "--name"]


@pytest.mark.parametrize("fields", [{"env": ["A=b"]}, {"env": "A=b", "sim_run_for": "1m"}, {"labels": 3}, {"node_labels": []}])
def test_mappings_of_another_type_are_faults(fields: dict[str, object]) -> None:
    with pytest.raises(ClientError) as caught:
        job_parser.job_from({"name": "a", "command": ["z"], **fields})
    assert caught.value.text.startswith(f"--{next(iter(fields)).replace('_', '-')}: expected an object")


def test_private_values_are_not_repeated() -> None:
    with pytest.raises(ClientError) as caught:
        job_parser.job_from({"name": "a", "command": ["z"], "env": {"TOKEN": 12345}})
    assert "12345" not in caught.value.text
    assert "--env" in caught.value.text


# --- GPU shares, elastic gangs, projects, topology


def request_of(**fields: object) -> job_parser.SubmitJob:
    return job_parser.job_from({"name": "a", "command": ["x"], **fields})


def test_gpu_shares() -> None:
    (half,) = request_of(fraction="0.5").demand.tasks
    assert (half.gpu_milli, half.gpu_share_milli, half.gpu_devices) == (0, 500, None)
    (slices,) = request_of(gpu_memory="4GiB", gpu_devices=2).demand.tasks
    assert (slices.gpu_milli, slices.gpu_share_bytes, slices.gpu_devices) == (0, 4 * 2**30, 2)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"fraction": 0.05}, "--fraction: expected a fraction of a GPU from 0.1 to 1, as in 0.5, found 0.05"),
        ({"fraction": 0.5, "gpus": 1}, "--fraction: cannot be combined with gpus: remove one"),
        ({"fraction": 0.5, "gpu_memory": "4GiB"}, "--gpu-memory: cannot be combined with fraction: remove one"),
        ({"gpu_devices": 2}, "--gpu-devices: is the number of shared GPUs"),
        ({"gpu_model": "A100"}, "--gpu-model: is the model of a task's GPUs: also set gpus, fraction, gpu-memory or mig"),
        ({"gpu_model": "A100", "gpus": 0}, "--gpu-model: is the model of a task's GPUs"),
        ({"groups": [{"gpus": 1}, {"gpu_model": "A100"}]}, "--groups.1.gpu-model: is the model of a task's GPUs"),
        (
            {"placement": "prefer nvlink", "fraction": 0.5},
            "--placement: is about whole GPUs of one task or several: also set gpus",
        ),
        ({"min_tasks": 3, "tasks": 2}, "min_tasks is 3, but the job has only 2 tasks"),
        ({"topology": {"topology": "racks", "require": "rack"}}, "--topology.require: no such field; did you mean required?"),
        ({"sub_groups": [{"name": "a", "min-task": 1}]}, "--sub-groups.0.min-task: no such field; did you mean min-tasks?"),
        ({"pack": "wide"}, "--pack: expected 'binpack' or 'spread', found \"wide\""),
    ],
)
def test_conflicting_fields_are_reported(fields: dict[str, object], expected: str) -> None:
    with pytest.raises(ClientError) as caught:
        request_of(**fields)
    assert expected in caught.value.text


@pytest.mark.parametrize("amount", [{"gpus": 1}, {"gpus": 0.5}, {"fraction": 0.5}, {"gpu_memory": "4GiB"}, {"mig": "3g.40gb"}])
def test_any_amount_of_gpus_may_be_of_one_model(amount: dict[str, object]) -> None:
    assert request_of(gpu_model="A100", **amount).demand.tasks[0].gpu_models == ("A100",)


def test_a_gang_with_every_field() -> None:
    demand = request_of(
        project="vision",
        user="u-1",
        min_tasks=2,
        run_time_limit="2h",
        preemption_delay="30s",
        pack="spread",
        topology={"topology": "racks", "required": "zone", "preferred": "rack"},
        sub_groups=[{"name": "workers", "min-tasks": 2, "topology": {"topology": "racks", "required": "rack"}}, {"name": "ps"}],
        groups=[{"tasks": 4, "gpus": 1, "sub_group": "workers", "order": 1}, {"cpu": 2, "sub_group": "ps"}],
    ).demand
    assert (demand.project, demand.user, demand.min_tasks, demand.pack) == ("vision", "u-1", 2, "spread")
    assert (demand.run_time_limit, demand.preemption_delay) == (7_200_000_000, 30_000_000)
    assert demand.topology is not None
    assert (demand.topology.required, demand.topology.preferred) == ("zone", "rack")
    workers, servers = demand.sub_groups
    assert (workers.min_tasks, workers.topology and workers.topology.required, servers.name) == (2, "rack", "ps")
    assert [(group.sub_group, group.order) for group in demand.tasks] == [("workers", 1), ("ps", None)]


def test_the_first_port_is_passed_in_the_environment_unless_the_job_sets_it() -> None:
    job = job_parser.job_from({"name": "a", "command": ["x"], "ports": [8888, 6006], "env": {"LR": "1"}})
    assert dict(job.spec.env) == {"BAILIFF_PORT": "8888", "LR": "1"}
    job = job_parser.job_from({"name": "a", "command": ["x"], "ports": [8888], "env": {"BAILIFF_PORT": "9999"}})
    assert dict(job.spec.env) == {"BAILIFF_PORT": "9999"}
    with pytest.raises(ClientError, match="env"):
        job_parser.job_from({"name": "a", "command": ["x"], "ports": [8888], "env": ["BAILIFF_PORT"]})
