"""The comparison at the end of `make soak`, and the jobs that it submits."""

import pytest
from tests.soak.load import GPUS_PER_NODE, NODES, arrivals
from tests.soak.samples import Sample, compare, disk_by_topic

HOUR = 3600.0


def run(grown=0.0, slower=0.0, hours=2.0):
    """Samples every 10 s of a run in which memory and handles grow by this share from the first hour to the end."""
    seconds, first = hours * HOUR, min(HOUR, hours * HOUR / 2)
    samples, latencies = [], []
    for number in range(int(seconds / 10) + 1):
        at = number * 10.0
        more = 1 + grown * max(0.0, at - first) / (seconds - first)
        disk = {"audit": number * 15_000, "reports": number * 5_000}
        samples.append(Sample(at, round(300_000 * more), round(500 * more), disk, jobs=number * 2))
        latencies.append((at, 10.0 if at <= first else 10.0 + slower))
    return {found.what: found for found in compare(samples, latencies, seconds)}


def test_a_run_that_stays_as_it_was_holds():
    found = run()
    assert all(each.holds for each in found.values())
    assert found["disk of Kafka per job"].end == pytest.approx(10.0)


def test_memory_and_handles_that_grow_by_more_than_a_tenth_do_not_hold():
    found = run(grown=0.2)
    failed = [what for what, each in found.items() if not each.holds]
    assert failed == ["memory of all services (PSS), median", "their open file handles, median"]
    assert all(each.holds for each in run(grown=0.08).values())


def test_disk_is_shown_by_topic():
    samples = [Sample(at * 10.0, 1, 1, {"audit": at * 4000, "late": max(0, at - 360) * 2000}, at) for at in range(721)]
    assert list(disk_by_topic(samples, 2 * HOUR)) == [("audit", 4.0, 4.0), ("late", 0.0, 2.0)]


def test_requests_that_take_longer_do_not_hold():
    (failed,) = [each for each in run(slower=2.0).values() if not each.holds]
    assert (failed.first, failed.end) == (10.0, 12.0)
    assert "MORE THAN 10 % ABOVE" in str(failed)


def test_the_first_half_of_a_short_run_counts_as_its_first_hour():
    assert run(grown=0.2, hours=0.5)["memory of all services (PSS), median"].end == pytest.approx(
        300_000 * 1.183 / 1024, rel=0.01
    )


def test_a_run_without_probes_is_no_success():
    samples = [Sample(at * 10.0, 1, 1, {"audit": at}, at) for at in range(100)]
    with pytest.raises(ValueError, match="nothing was measured"):
        compare(samples, [], 990.0)


@pytest.mark.slow
def test_the_trace_comes_at_twenty_times_its_speed_and_fits_the_nodes():
    jobs = list(arrivals(HOUR))
    assert len(jobs) > 1_000
    assert [job.at for job in jobs] == sorted(job.at for job in jobs)
    assert all(job.run_s <= 360 for job in jobs)
    assert all(sum(group.count * group.gpu_milli for group in job.demand.tasks) <= NODES * GPUS_PER_NODE * 1000 for job in jobs)
    classes = {job.demand.priority_class for job in jobs}
    assert classes == {"train", "inference"}
