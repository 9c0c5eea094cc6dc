import { describe, expect, it } from "vitest";

import type { Comparison, RunFigures } from "../../api";
import { collapseUnchanged, diff } from "./lineDiff";
import { segmentBounds } from "./logSegment";
import { groupRows, hours, shares, summary, totals, verdict, type Measure } from "./resultMeasures";

describe("line diff of two policies", () => {
  const text = (of: ReturnType<typeof diff>) => of!.map((line) => `${{ same: " ", removed: "-", added: "+" }[line.is]}${line.text}`);
  it("marks removed and added lines", () => {
    expect(text(diff("a\nb\nc\nd\n", "a\nx\nc\nd\ne\n"))).toEqual([" a", "-b", "+x", " c", " d", "+e"]);
    expect(text(diff("", "a"))).toEqual(["-", "+a"]);
    expect(text(diff("a\n", "a\n"))).toEqual([" a"]);
  });
  it("turns the first text into the second", () => {
    const some = (seed: number) => Array.from({ length: 30 }, (_, at) => "abc"[(seed * (at + 3) * (at + 7)) % 3]!).join("\n");
    for (let seed = 1; seed < 40; seed += 1) {
      const found = diff(some(seed), some(seed + 1))!;
      expect(found.filter((line) => line.is !== "added").map((line) => line.text).join("\n")).toBe(some(seed)); // prettier-ignore
      expect(found.filter((line) => line.is !== "removed").map((line) => line.text).join("\n")).toBe(some(seed + 1)); // prettier-ignore
    }
  });
  it("collapses unchanged lines", () => {
    const before = Array.from({ length: 40 }, (_, at) => `${at}`).join("\n");
    const found = collapseUnchanged(diff(before, before.replace("20", "x"))!);
    expect(found.map((line) => (line.is === "skipped" ? line.lines : line.text))).toEqual([17, "17", "18", "19", "20", "x", "21", "22", "23", 16]);
  });
  it("gives up on very different texts", () => expect(diff("a\n".repeat(4_000), "b\n".repeat(4_000))).toBeNull());
});

describe("log segment", () => {
  const none = { from: "", to: "" };
  it("ends with the newest record", () => expect(segmentBounds("week", "2026-11-22T12:00:00.250Z", none)).toEqual({ from: "2026-11-15T12:00:00Z", to: null }));
  it("may be the whole log", () => expect(segmentBounds("all", null, none)).toEqual({ from: null, to: null }));
  it("may have custom bounds", () => {
    expect(segmentBounds("custom", null, { from: "2026-11-01", to: "2026-11-02 12:30" })).toEqual({ from: "2026-11-01T00:00:00Z", to: "2026-11-02T12:30:00Z" });
    expect(segmentBounds("custom", null, { from: "12", to: "" })).toEqual({ from: "12", to: null });
  });
  it.each([
    { from: "soon", to: "" }, { from: "", to: "2026-13-01" }, { from: "9", to: "8" }, { from: "2026-11-02", to: "2026-11-01" },
  ])("refuses %j", (own) => expect(segmentBounds("custom", null, own)).toHaveProperty("fault")); // prettier-ignore
  it("needs a record", () => expect(segmentBounds("day", null, none)).toHaveProperty("fault"));
});

describe("comparison of runs", () => {
  const measure = (recorded: number, simulated: number, other: number, better: "less" | "more" = "less"): Measure => ({ name: "x", better, figures: { recorded, simulated, other }, show: String });
  it("is a difference only if larger than the simulation error", () => {
    expect(verdict(measure(10, 10, 8))?.verdict).toBe("better");
    expect(verdict(measure(10, 10, 12))?.verdict).toBe("worse");
    expect(verdict(measure(10, 10, 12, "more"))?.verdict).toBe("better");
    expect(verdict(measure(13, 10, 12))?.verdict).toBe("within");
    expect(verdict(measure(13, 10, 10))?.verdict).toBe("same");
  });

  const run = (label: RunFigures["label"], wait: number, lost: number): RunFigures => ({
    label, jobs: 2, refused: 0, ended: 2, waiting: { all: { mean: wait, p95: wait } }, evictions: 1, gpu_hours: { work: 10, lost, restarts: 0, held: 10 },
    utilisation: 0.5, fairness: { jain: null, share_of_entitlement: { vision: 0.9 } },
  }); // prettier-ignore
  const figures = (waited_mean: number) => ({ jobs: 2, waited_mean, waited_p95: 1, evictions: 0, gpu_hours_lost: 0, gpu_hours_done: 1 });
  const result: Comparison = {
    pool: "pool-a", policy: "other", from: 0, to: 1, headline: [], rejected: [], never_started: [], assumptions: [], confidence: "", improved: [], worsened: [],
    runs: [run("recorded", 1, 5), run("simulated", 1, 5), run("other", 0.5, 9)],
    groups: { "class train": { recorded: figures(1), simulated: figures(1), other: figures(2) }, "project vision": { recorded: figures(1), simulated: figures(1), other: figures(1) } },
  }; // prettier-ignore
  it("is summarized in a sentence", () => expect(summary(result)).toBe("Better: mean wait time; p95 wait time. Worse: GPU-hours lost."));
  it("by class and project", () => {
    expect(groupRows(result, "waited_mean").map((row) => [row.kind, row.name, verdict(row.measure)?.verdict])).toEqual([["class", "train", "worse"], ["project", "vision", "same"]]); // prettier-ignore
    expect(shares(result)[0]).toMatchObject({ name: "vision", jobs: 2 });
  });
  it("omits figures that a run lacks", () => expect(verdict(totals(result).find((each) => each.name.startsWith("Fairness"))!)).toBeNull());
  it("formats hours", () => expect([0, 0.01, 0.025, 1.5, -2, -0.1].map(hours)).toEqual(["0s", "36s", "1m30s", "1h30m", "−2h", "−6m"]));
});
