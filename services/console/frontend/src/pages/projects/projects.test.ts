import { describe, expect, it } from "vitest";

import { aJob, aProject, projectMap } from "../pool/rows.fixture";
import { borrowedText, borrowers, stepsPath, type OverTimeRow } from "./borrowed";
import { jobsOf } from "./jobs";
import { projectPath } from "./path";
import { amount, barText, borrowings, borrowingText, evictionsText, foremost, measured, verdict } from "./shares";
import { ALL, branches, pathTo } from "./tree";
import { columns, since, usageText, type UsageItem } from "./usage";

describe("whether a team gets its share", () => {
  const says = (used: number, quota: number | null, fair: number, waiting = 0): string[] => {
    const { word, text } = verdict(aProject("p", used, quota, fair, { jobs_pending: waiting }));
    return [word, text];
  };

  it("short of it while jobs wait", () => {
    expect(says(4, 8, 8, 2)).toEqual(["below its share", "4 GPUs short of its fair share while 2 jobs wait."]);
  });

  it("short by a single GPU, too", () => expect(says(7, 8, 8, 1)).toEqual(["below its share", "1 GPU short of its fair share while 1 job waits."]));

  it("borrowing, within the fair share or above it", () => {
    expect(says(10, 8, 12)).toEqual(["borrows", "Borrows 2 GPUs above its quota, within its fair share."]);
    expect(says(12, 8, 9, 1)).toEqual(["borrows", "Borrows 4 GPUs above its quota, 3 GPUs of them above its fair share: others may reclaim those. 1 job waits."]);
    expect(says(12, 8, 4)[1]).toContain("4 GPUs of them");
  });

  it("content, idle, or waiting for more than its share", () => {
    expect(says(4, 8, 4)).toEqual(["nothing waits", "Within its quota of 8 GPUs, and nothing waits."]);
    expect(says(0, 8, 0)).toEqual(["idle", "Uses no GPU, and nothing waits."]);
    expect(says(8, 8, 8, 1)).toEqual(["has its share", "Has its fair share; 1 job waits for more."]);
    expect(says(8, null, 8)[1]).toBe("Within its quota, and nothing waits.");
  });
});

describe("who borrows what from whom", () => {
  it("from siblings that leave some of their quota, and from what is nobody's", () => {
    const rows = projectMap(aProject("research", 12, 8, 12), aProject("serving", 3, 6, 3), aProject("guests", 1, 1, 1));
    const [only, ...more] = borrowings(rows, 17_000);
    expect(more).toEqual([]);
    expect(borrowingText(only!)).toBe("borrows 4 GPUs: serving leaves 3 GPUs of its quota unused, 2 GPUs are in nobody's quota.");
  });

  it("level by level, who borrows most first: a child borrows from its siblings, or its parent as a whole does", () => {
    const rows = projectMap(
      aProject("top", 6, 4, 6),
      aProject("a", 5, 2, 5, { parent: "top", depth: 1 }),
      aProject("b", 1, 2, 1, { parent: "top", depth: 1 }),
      aProject("other", 0, 4, 0),
    );
    expect(borrowings(rows, 8_000).map((each) => `${each.borrower.project} ${borrowingText(each)}`)).toEqual([
      "a borrows 3 GPUs: b leaves 1 GPU of its quota unused.",
      "top borrows 2 GPUs: other leaves 4 GPUs of its quota unused.",
    ]);
    const full = projectMap(aProject("top", 6, 4, 6), aProject("a", 6, 4, 6, { parent: "top", depth: 1 }));
    expect(borrowings(full, 4_000).map(borrowingText)).toEqual(["borrows 2 GPUs: all quotas are in use.", "borrows 2 GPUs: top as a whole is above its quota."]);
  });

  it("names the first lenders and counts the rest", () => {
    const rows = projectMap(aProject("x", 9, 1, 9), ...["a", "b", "c", "d", "e"].map((name, at) => aProject(name, 0, 5 - at, 0)));
    expect(borrowingText(borrowings(rows, 0)[0]!)).toBe("borrows 8 GPUs: a leaves 5 GPUs of its quota unused, b leaves 4 GPUs, c leaves 3 GPUs, 2 other projects 3 GPUs.");
  });
});

it("of many projects those come first that are short of their share, borrow or wait", () => {
  const rows = [aProject("idle", 0, 2, 0), aProject("runs", 1, 2, 1), aProject("waits", 2, 2, 2, { jobs_pending: 1 }), aProject("borrows", 3, 2, 3), aProject("short", 1, 2, 2, { jobs_pending: 1 })];
  expect(foremost(rows, 3).map((row) => row.project)).toEqual(["waits", "borrows", "short"]);
  expect(foremost(rows, 5)).toEqual(rows);
});

describe("figures", () => {
  it("have units, and say where there is no bound", () => {
    expect(amount(null, "gpu_milli")).toBe("no bound");
    expect(measured(1000, "gpu_milli")).toBe("1 GPU");
    expect(measured(2500, "gpu_milli")).toBe("2.5 GPUs");
    expect(measured(1_500_000, "cpu_milli")).toBe("1,500 CPU");
    expect(measured(1024 ** 4, "memory_bytes")).toBe("1 TiB");
  });

  it("are said of a bar in words", () => {
    expect(barText(aProject("p", 4, 8, 6), "gpu_milli")).toBe("p uses 4 GPUs, its quota is 8 GPUs, its fair share 6 GPUs.");
    expect(barText(aProject("", 4, null, 6), "gpu_milli")).toBe("no project uses 4 GPUs, no quota bounds it, its fair share 6 GPUs.");
  });

  it("of evictions", () => {
    expect(evictionsText(aProject("p", 0, 1, 1))).toBe("None of its jobs was preempted; nobody was preempted for them.");
    expect(evictionsText(aProject("p", 0, 1, 1, { evictions_suffered: 3, evictions_caused: 1, gpu_hours_lost: 2.345 }))).toBe(
      "Its jobs were preempted 3 times; others were preempted for them once. Evictions cost it 2.3 GPU-h of work.",
    );
    expect(evictionsText(aProject("p", 0, 1, 1, { evictions_caused: 2 }))).toBe("None of its jobs was preempted; others were preempted for them twice.");
    expect(evictionsText(aProject("p", 0, 1, 1, { evictions_suffered: 1 }))).toBe("Its jobs were preempted once; nobody was preempted for them.");
  });
});

describe("the tree", () => {
  const rows = projectMap(aProject("a", 0, 1, 1), aProject("a-1", 0, 1, 1, { parent: "a", depth: 1 }), aProject("a-1-x", 0, 1, 1, { parent: "a-1", depth: 2 }), aProject("b", 0, 1, 1));
  const names = (unfolded: (name: string) => boolean, root: string | null = null, sought = ALL): string[] => branches(rows, unfolded, root, sought).map(({ row }) => row.project);

  it("folds and unfolds, starts anywhere, and is found by name", () => {
    expect(names(() => true)).toEqual(["a", "a-1", "a-1-x", "b"]);
    expect(names((name) => name === "a")).toEqual(["a", "a-1", "b"]);
    expect(names(() => true, "a")).toEqual(["a-1", "a-1-x"]);
    expect(names(() => false, null, { text: "-X", standing: "" })).toEqual(["a-1-x"]);
    expect(pathTo(rows, "a-1-x")).toEqual(["a", "a-1", "a-1-x"]);
  });

  it("is searched by standing", () => {
    const some = projectMap(aProject("top", 4, 8, 4), aProject("low", 2, 2, 4, { parent: "top", depth: 1, jobs_pending: 1 }), aProject("more", 2, 1, 2, { parent: "top", depth: 1 }));
    const found = (sought: { text: string; standing: string }) => branches(some, () => false, null, sought).map(({ row }) => row.project);
    expect(found({ text: "", standing: "below its share" })).toEqual(["low"]);
    expect(found({ text: "o", standing: "borrows" })).toEqual(["more"]);
  });

  it("takes names for what they are in addresses", () => expect(projectPath("pool a", "x/y&z")).toBe("/pool%20a/projects?project=x%2Fy%26z"));
});

it("jobs of a project: who leaves first, then who runs, waits, and the rest", () => {
  const jobs = ["paused", "pending", "running", "evicting"].map((state) => aJob(state, { state }));
  expect(jobsOf([...jobs, aJob("other", { project: "x" })], (name) => name === "research").map((job) => job.job)).toEqual(["evicting", "running", "pending", "paused"]);
});

describe("use over time", () => {
  const item = (gpus: number, quota: number | null, at: number): UsageItem => ({ project: "p", seq: at, time: `2026-01-01T00:0${at}:00Z`, gpus, quota, limit: null, fair_share: 6, borrowed: quota === null ? null : Math.max(0, gpus - quota) });

  it("fills what is above the quota, and nothing where there is none", () => {
    expect(columns([item(3, 4, 0), item(6, 4, 1), item(6, null, 2)])).toEqual([
      [0, 1, 2].map((at) => Date.parse(`2026-01-01T00:0${at}:00Z`) / 1000), [3, 6, 6], [4, 4, null], [6, 6, 6], [4, 6, null],
    ]);
    expect(columns([{ ...item(3, null, 0), project: "" }])[3]).toEqual([null]);
  });

  it("is told in a sentence, and asked for from the log's own time on", () => {
    expect(usageText([item(3, 4, 0), item(6, 4, 1)])).toBe("Used at most 6 GPUs, and borrowed at most 2, 50 % of the time.");
    expect(usageText([item(3, 4, 0)])).toBe("Used at most 3 GPUs, and borrowed nothing.");
    expect(usageText([item(1, null, 0)])).toBe("Used at most 1 GPU.");
    expect(since("2026-01-02T00:00:00Z", "6h")).toBe("2026-01-01T18:00:00.000Z");
  });
});

describe("who borrowed what over time", () => {
  const row = (project: string, borrowed: (number | null)[], most: number, hours: number): OverTimeRow => ({ project, borrowed, most_borrowed: most, borrowed_gpu_hours: hours });

  it("leaves out who borrowed nothing, and the pool", () => {
    const found = { from: null, to: null, stretch_s: 60, times: [], projects: [row("a", [1], 2, 1), row("", [3], 3, 3), row("b", [0], 0, 0)] };
    expect(borrowers(found).map((each) => each.project)).toEqual(["a"]);
  });

  it("is a strip of steps, to one scale, with nothing where nothing is known", () => {
    expect(stepsPath([0, 4, null, 2], 4)).toBe("M0 100L0 100L1 100L1 0L2 0L2 100L3 100L3 50L4 50L4 100Z");
    expect(stepsPath([], 4)).toBe("");
    expect(stepsPath([0], 0)).toBe("M0 100L0 100L1 100L1 100Z");
  });

  it("is told in words", () => expect(borrowedText(row("a", [null, 0, 2, 2], 6, 2.25))).toBe("at most 6 GPUs, 2.3 GPU-h in all, 67 % of the time"));
});
