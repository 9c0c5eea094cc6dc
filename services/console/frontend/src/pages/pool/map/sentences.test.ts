import { describe, expect, it } from "vitest";

import { aJob, aNode, FREE, held, jobMap, leaving } from "../rows.fixture";
import { cellSays, runText } from "./sentences";
import { level, meanUtilisation } from "./telemetry";

const NOW = Date.parse("2026-01-01T00:05:00Z");
const eviction = { for_job: "serve-1", cause: "preemption", stage: "noticed", decided_seq: 7, began_at: "2026-01-01T00:04:50Z", deadline: "2026-01-01T00:05:20Z" };
const jobs = jobMap(aJob("train-1"), aJob("train-2", { state: "evicting", eviction }), aJob("serve-1", { project: "serving", class: "serve", priority: 125, state: "reserved", started_at: null }));
const said = (cell: Parameters<typeof aNode>[1][number], more = {}): string => cellSays(aNode("n", [cell], more), 0, jobs, undefined, NOW).join(" ");

describe("what a GPU says of itself", () => {
  it("who holds it, for how long, and to whom that belongs", () => {
    expect(said(held("train-1"))).toBe("train-1 holds it, running for 5 min. Project research, class train, priority 75.");
  });

  it("who leaves, for whom, and how long that may take", () => {
    expect(said(leaving("train-2", "serve-1"))).toBe(
      "train-2 is leaving it for serve-1; its grace ends in 20 s. Project research, class train, priority 75. " +
        "Reserved for serve-1 (project serving, class serve, priority 125) when it is free.",
    );
  });

  it("for whom it is kept, who shares it, and what is wrong with it", () => {
    expect(said(["reserved", null, "serve-1", [], null])).toContain("Nobody is on it; it is reserved for serve-1.");
    expect(said(["shared", "a", null, ["a/0", "b/0"], null])).toContain("Shared by a/0 and b/0.");
    expect(said(["quarantined", null, null, [], "a process is left."])).toBe("Quarantined: nobody gets it until it is proved clean: a process is left.");
    expect(said(["unhealthy", null, null, [], "XID 79"])).toBe("Unhealthy: nobody gets it: XID 79.");
  });

  it("that free does not mean available where the node takes no work", () => {
    expect(said(FREE)).toBe("Free.");
    expect(said(FREE, { state: "drained" })).toBe("Nobody is on it. The node is drained: nothing runs there and nothing new is placed.");
    expect(said(FREE, { state: "lost" })).toContain("is lost");
  });

  it("what the device says, if it says anything", () => {
    const node = aNode("n", [held("train-1")]);
    const told = { at: "2026-01-01T00:05:00Z", devices: [[83.4, 40 * 1024 ** 3, 80 * 1024 ** 3]] as [number, number, number][] };
    expect(cellSays(node, 0, jobs, told, NOW).at(-1)).toBe("83 % busy, 40 GiB of memory in use.");
    expect(cellSays(node, 5, jobs, told, NOW)).toEqual([]);
  });

  it("in a line of the table", () => {
    expect(runText({ from: 0, to: 3, cell: leaving("a", "b") })).toBe("GPU 0–3: a is leaving, then b");
  });
});

describe("telemetry", () => {
  const node = aNode("n", [held("train-1"), FREE]);
  const told = new Map([["n", { at: "", devices: [[80, 20 * 1024 ** 3, 80 * 1024 ** 3], [0, null, null]] as [number, number | null, number | null][] }]]);

  it("is a part of the whole, or unknown", () => {
    expect(level(0, told.get("n"), "utilisation")).toBe(0.8);
    expect(level(0, told.get("n"), "memory")).toBe(0.25);
    expect(level(1, told.get("n"), "memory")).toBeNull();
    expect(level(0, undefined, "utilisation")).toBeNull();
  });

  it("has a mean over GPUs that somebody holds", () => {
    expect(meanUtilisation([node], told)).toBe(80);
    expect(meanUtilisation([node], new Map())).toBeNull();
  });
});
