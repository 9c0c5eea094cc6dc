import { describe, expect, it } from "vitest";

import { cellTitle } from "../../../shared/gpuCellStyle";
import { devicesText } from "../../../shared/nodes";
import { aJob, allocated, aNode, FREE, jobMap, releasing } from "../../../testing/liveRows";
import { gpuSentences, runSummary } from "./gpuText";
import { level, meanUtilisation } from "./telemetry";

const NOW = Date.parse("2026-01-01T00:05:00Z");
const eviction = { for_job: "serve-1", cause: "preemption", stage: "noticed", decided_seq: 7, started_at: "2026-01-01T00:04:50Z", deadline: "2026-01-01T00:05:20Z", grace_s: 30, stuck: false };
const jobs = jobMap(aJob("train-1"), aJob("train-2", { state: "evicting", eviction }), aJob("serve-1", { project: "serving", priority_class: "serve", priority: 125, state: "reserved", started_at: null }));
const sentencesOf = (cell: Parameters<typeof aNode>[1][number], more = {}): string => gpuSentences(aNode("n", [cell], more), 0, jobs, undefined, NOW).join(" ");

describe("sentences about a GPU", () => {
  it("the job it is allocated to, for how long, and the job's project", () => {
    expect(sentencesOf(allocated("train-1"))).toBe("Allocated to train-1, running for 5m. Project research, class train, priority 75.");
  });

  it("the job releasing it, the preemptor and the rest of the grace period", () => {
    expect(sentencesOf(releasing("train-2", "serve-1"))).toBe(
      "Being released by train-2, preempted by serve-1; its grace period ends in 20s. Project research, class train, priority 75. " +
        "Reserved for serve-1 (project serving, class serve, priority 125) after its release.",
    );
  });

  it("the reservation, the sharing tasks and the problem", () => {
    expect(sentencesOf(["reserved", null, "serve-1", [], null])).toContain("Reserved for serve-1.");
    expect(sentencesOf(["shared", "a", null, ["a/0", "b/0"], null])).toContain("Shared by a/0 and b/0.");
    expect(sentencesOf(["quarantined", null, null, [], "a process is left."])).toBe("Quarantined until it is cleared: a process is left.");
    expect(sentencesOf(["unhealthy", null, null, [], "XID 79"])).toBe("Unhealthy, not schedulable: XID 79.");
  });

  it("free GPUs of nodes that are not schedulable", () => {
    expect(sentencesOf(FREE)).toBe("Free.");
    expect(sentencesOf(FREE, { state: "drained" })).toBe("Not allocated. The node is drained: no jobs run there and no new ones are placed.");
    expect(sentencesOf(FREE, { state: "lost" })).toContain("is lost");
  });

  it("the telemetry, if available", () => {
    const node = aNode("n", [allocated("train-1")]);
    const telemetry = { at: "2026-01-01T00:05:00Z", devices: [[83.4, 40 * 1024 ** 3, 80 * 1024 ** 3]] as [number, number, number][] };
    expect(gpuSentences(node, 0, jobs, telemetry, NOW).at(-1)).toBe("83 % busy, 40 GiB of memory in use.");
    expect(gpuSentences(node, 5, jobs, telemetry, NOW)).toEqual([]);
  });

  it("one line for the table", () => {
    expect(runSummary({ from: 0, to: 3, cell: releasing("a", "b") })).toBe("GPU 0–3: being released by a, reserved for b");
  });
});

describe("telemetry", () => {
  const node = aNode("n", [allocated("train-1"), FREE]);
  const telemetry = new Map([["n", { at: "", devices: [[80, 20 * 1024 ** 3, 80 * 1024 ** 3], [0, null, null]] as [number, number | null, number | null][] }]]);

  it("is a fraction, or unknown", () => {
    expect(level(0, telemetry.get("n"), "utilisation")).toBe(0.8);
    expect(level(0, telemetry.get("n"), "memory")).toBe(0.25);
    expect(level(1, telemetry.get("n"), "memory")).toBeNull();
    expect(level(0, undefined, "utilisation")).toBeNull();
  });

  it("has a mean over allocated GPUs", () => {
    expect(meanUtilisation([node], telemetry)).toBe(80);
    expect(meanUtilisation([node], new Map())).toBeNull();
  });
});

describe("MIG devices and islands", () => {
  const node = aNode("n", [FREE, FREE, allocated("train-1")], { kinds: [[0, null, "nvlink-0"], [1, null, "nvlink-0"], [5, "3g.40gb", null]] });

  it("a MIG device has its number and profile, and the node counts them by profile", () => {
    expect(cellTitle(node, 2)).toBe("n, MIG device 5 (3g.40gb)");
    expect(cellTitle(node, 1)).toBe("n, GPU 1");
    expect(devicesText(node)).toBe("2 GPUs, 1 × 3g.40gb");
    expect(devicesText(aNode("n", [FREE]))).toBe("1 GPU");
  });

  it("a GPU says which island it is on", () => {
    expect(gpuSentences(node, 0, jobs, undefined, NOW)).toContain("On the island nvlink-0.");
    expect(gpuSentences(node, 2, jobs, undefined, NOW).join(" ")).not.toContain("island");
  });
});
