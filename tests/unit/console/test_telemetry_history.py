"""Utilisation over time, as the console keeps it."""

from bailiff_console.live.telemetry_history import MAX_NODES, STEP_S, STEPS, TelemetryHistory

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
