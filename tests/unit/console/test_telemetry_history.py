"""Utilisation over time, as the console keeps it."""

import pytest

from bailiff_console.live.telemetry_history import LONG_STEP_S, LONG_STEPS, MAX_NODES, STEP_S, STEPS, TelemetryHistory

GIB = 1 << 30


def test_a_nodes_gpus_are_kept_in_steps_and_unknown_values_stay_unknown() -> None:
    history = TelemetryHistory()
    history.take("n", 100, [(50, 4 * GIB, 8 * GIB), (None, None, None)])
    history.take("n", 104, [(99, GIB, 8 * GIB), (99, GIB, GIB)])  # the same step
    history.take("n", 90, [(1, GIB, GIB)])  # older
    history.take("n", 110, [(70, 8 * GIB, 8 * GIB), (30, 0, 8 * GIB)])
    found = history.of_node("n")
    assert found["times"] == [100, 110]
    assert found["busy"] == [[50, 70], [None, 30]]
    assert found["memory"] == [[50, 100], [None, 0]]


def test_values_that_no_gpu_can_have_are_bounded() -> None:
    history = TelemetryHistory()
    history.take("n", 0, [(1000, 10**30, 1), (-5, 1, 0)])
    assert history.of_node("n")["busy"] == [[100], [0]]
    assert history.of_node("n")["memory"] == [[100], [None]]


@pytest.mark.slow
def test_the_history_is_bounded_in_time_and_in_nodes() -> None:
    history = TelemetryHistory()
    for step in range(2 * STEPS):
        history.take("n", step * STEP_S, [(1, None, None)])
    assert len(history.of_node("n")["times"]) == STEPS
    for number in range(MAX_NODES + 5):
        history.take(f"n{number}", 0, [])
    assert history.of_node(f"n{MAX_NODES + 1}")["times"] == []
    history.keep(["n"])
    assert history.of_node("n0")["times"] == []


def test_the_pool_is_the_mean_of_measured_gpus_per_minute() -> None:
    history = TelemetryHistory()
    history.take("a", 0, [(100, None, None), (None, None, None)])
    history.take("b", 5, [(50, None, None)])
    history.take("a", 60, [(10, None, None)])
    assert history.of_pool(0) == {"step_s": 60, "times": [0, 60], "busy": [75.0, 10.0]}
    assert history.of_pool(60)["times"] == [60]


def test_a_day_of_a_node_is_kept_as_means_of_longer_steps() -> None:
    history, day = TelemetryHistory(), LONG_STEPS * LONG_STEP_S
    for time in range(0, 2 * day, STEP_S):
        history.take("n", time, [(100 if time // STEP_S % 2 else 50, None, None), (None, 1, 4)])
    long, short = history.of_node("n", day), history.of_node("n", 2 * day - 600)
    assert (long["step_s"], long["times"][0], long["times"][-1]) == (LONG_STEP_S, day, 2 * day - LONG_STEP_S)
    assert len(long["times"]) == LONG_STEPS
    assert set(long["busy"][0]) == {75}
    assert set(long["busy"][1]) == {None}
    assert set(long["memory"][1]) == {25}
    assert (short["step_s"], short["times"][0]) == (STEP_S, 2 * day - 600)
    assert history.of_node("n", 0)["times"][0] == day - LONG_STEP_S  # no more than a day is kept
