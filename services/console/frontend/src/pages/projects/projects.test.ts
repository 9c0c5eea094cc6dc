import { describe, expect, it } from "vitest";

import type { BudgetView, MonthReport, ProjectSeries, ReservationView } from "../../api";
import { rangeStart } from "../../lib";
import { amount, barText, borrowings, borrowingText, evictionsText, kindQuotaText, measured, mostRelevant, shareStatus } from "../../shared/shareText";
import { aJob, aProject, projectMap } from "../../testing/liveRows";
import { projectPath } from "../../ui";
import { borrowedLines, borrowedText, borrowers } from "./borrowingSeries";
import { budgetsOf, lossesOf, sharesText } from "./budgetRows";
import { jobsOf } from "./projectJobs";
import { repeatText, reservationsOf } from "./reservationRows";
import { ALL, pathTo, treeRows } from "./treeRows";
import { pointsOf, usageLines, usageText, withCurrent, type UsagePoint } from "./usageSeries";

describe("share status", () => {
  const statusOf = (used: number, quota: number | null, fair: number, pending = 0): string[] => {
    const { word, text } = shareStatus(aProject("p", used, quota, fair, { jobs_pending: pending }));
    return [word, text];
  };

  it("below fair share with pending jobs", () => {
    expect(statusOf(4, 8, 8, 2)).toEqual(["below fair share", "4 GPUs below its fair share while 2 jobs are pending."]);
  });

  it("below by a single GPU", () => expect(statusOf(7, 8, 8, 1)).toEqual(["below fair share", "1 GPU below its fair share while 1 job is pending."]));

  it("borrowing, within the fair share or above it", () => {
    expect(statusOf(10, 8, 12)).toEqual(["borrowing", "Borrows 2 GPUs above its quota, within its fair share."]);
    expect(statusOf(12, 8, 9, 1)).toEqual(["borrowing", "Borrows 4 GPUs above its quota, 3 GPUs of them above its fair share: others may reclaim them. 1 job is pending."]);
    expect(statusOf(12, 8, 4)[1]).toContain("4 GPUs of them");
  });

  it("within the quota, but above what of it is in force", () => {
    const { word, text } = shareStatus(aProject("p", 8, 8, 7, { quota_in_force: { gpus: 7, cpu_milli: null, memory_bytes: null } }));
    expect([word, text]).toEqual(["above quota in force", "Uses 1 GPU more than the 7 GPUs of its quota in force: others may reclaim what is above."]);
  });

  it("of one kind of GPU, the quota in force where it is less", () => {
    const kind = { kind: "h100", used: 2, quota: 4, limit: null, fair_share: 4 };
    expect(kindQuotaText({ ...kind, quota_in_force: 4 })).toBe("4");
    expect(kindQuotaText({ ...kind, quota_in_force: 2 })).toBe("4 (2 in force)");
  });

  it("within quota, idle, or at fair share with pending jobs", () => {
    expect(statusOf(4, 8, 4)).toEqual(["within quota", "Within its quota of 8 GPUs; no jobs pending."]);
    expect(statusOf(0, 8, 0)).toEqual(["idle", "Uses no GPUs; no jobs pending."]);
    expect(statusOf(8, 8, 8, 1)).toEqual(["at fair share", "Has its fair share; 1 job is pending."]);
    expect(statusOf(8, null, 8)[1]).toBe("Within its quota; no jobs pending.");
  });
});

describe("borrowers and lenders", () => {
  it("from siblings with unused quota, and unassigned quota", () => {
    const rows = projectMap(aProject("research", 12, 8, 12), aProject("serving", 3, 6, 3), aProject("guests", 1, 1, 1));
    const [only, ...more] = borrowings(rows, 17);
    expect(more).toEqual([]);
    expect(borrowingText(only!)).toBe("borrows 4 GPUs: serving has 3 GPUs of its quota unused, 2 GPUs are not assigned to any quota.");
  });

  it("per level, largest borrower first: a child borrows from siblings, or its parent does", () => {
    const rows = projectMap(
      aProject("top", 6, 4, 6),
      aProject("a", 5, 2, 5, { parent: "top", depth: 1 }),
      aProject("b", 1, 2, 1, { parent: "top", depth: 1 }),
      aProject("other", 0, 4, 0),
    );
    expect(borrowings(rows, 8).map((each) => `${each.borrower.project} ${borrowingText(each)}`)).toEqual([
      "a borrows 3 GPUs: b has 1 GPU of its quota unused.",
      "top borrows 2 GPUs: other has 4 GPUs of its quota unused.",
    ]);
    const full = projectMap(aProject("top", 6, 4, 6), aProject("a", 6, 4, 6, { parent: "top", depth: 1 }));
    expect(borrowings(full, 4).map(borrowingText)).toEqual(["borrows 2 GPUs: all quotas are in use.", "borrows 2 GPUs: top as a whole is above its quota."]);
  });

  it("names the first lenders and counts the rest", () => {
    const rows = projectMap(aProject("x", 9, 1, 9), ...["a", "b", "c", "d", "e"].map((name, at) => aProject(name, 0, 5 - at, 0)));
    expect(borrowingText(borrowings(rows, 0)[0]!)).toBe("borrows 8 GPUs: a has 5 GPUs of its quota unused, b has 4 GPUs, c has 3 GPUs, 2 other projects 3 GPUs.");
  });
});

it("the most relevant projects: below fair share, borrowing, with pending jobs", () => {
  const rows = [aProject("idle", 0, 2, 0), aProject("runs", 1, 2, 1), aProject("waits", 2, 2, 2, { jobs_pending: 1 }), aProject("borrows", 3, 2, 3), aProject("short", 1, 2, 2, { jobs_pending: 1 })];
  expect(mostRelevant(rows, 3).map((row) => row.project)).toEqual(["waits", "borrows", "short"]);
  expect(mostRelevant(rows, 5)).toEqual(rows);
});

describe("figures", () => {
  it("have units, and show unlimited amounts", () => {
    expect(amount(null, "gpus")).toBe("unlimited");
    expect(measured(1, "gpus")).toBe("1 GPU");
    expect(measured(2.5, "gpus")).toBe("2.5 GPUs");
    expect(measured(1_500_000, "cpu_milli")).toBe("1,500 CPU");
    expect(measured(1024 ** 4, "memory_bytes")).toBe("1 TiB");
  });

  it("describe a bar as text", () => {
    expect(barText(aProject("p", 4, 8, 6), "gpus")).toBe("p uses 4 GPUs, its quota is 8 GPUs, its fair share 6 GPUs.");
    expect(barText(aProject("", 4, null, 6), "gpus")).toBe("no project uses 4 GPUs, it has no quota, its fair share 6 GPUs.");
  });

  it("of evictions", () => {
    expect(evictionsText(aProject("p", 0, 1, 1))).toBe("Its jobs were not preempted and preempted no others since the log began.");
    expect(evictionsText(aProject("p", 0, 1, 1, { evictions_suffered: 3, evictions_caused: 1, gpu_hours_lost: 2.345 }))).toBe(
      "Its jobs were preempted 3 times and preempted others once since the log began. Preemptions cost it 2.3 GPU-h of work.",
    );
    expect(evictionsText(aProject("p", 0, 1, 1, { evictions_caused: 2 }))).toBe("Its jobs were not preempted and preempted others 2 times since the log began.");
    expect(evictionsText(aProject("p", 0, 1, 1, { evictions_suffered: 1 }))).toBe("Its jobs were preempted once and preempted no others since the log began.");
  });
});

describe("the tree", () => {
  const rows = projectMap(aProject("a", 0, 1, 1), aProject("a-1", 0, 1, 1, { parent: "a", depth: 1 }), aProject("a-1-x", 0, 1, 1, { parent: "a-1", depth: 2 }), aProject("b", 0, 1, 1));
  const names = (isExpanded: (name: string) => boolean, root: string | null = null, treeFilter = ALL): string[] => treeRows(rows, isExpanded, root, treeFilter).map(({ row }) => row.project);

  it("collapses and expands, starts at any root, and filters by name", () => {
    expect(names(() => true)).toEqual(["a", "a-1", "a-1-x", "b"]);
    expect(names((name) => name === "a")).toEqual(["a", "a-1", "b"]);
    expect(names(() => true, "a")).toEqual(["a-1", "a-1-x"]);
    expect(names(() => false, null, { text: "-X", status: "" })).toEqual(["a-1-x"]);
    expect(pathTo(rows, "a-1-x")).toEqual(["a", "a-1", "a-1-x"]);
  });

  it("filters by status", () => {
    const some = projectMap(aProject("top", 4, 8, 4), aProject("low", 2, 2, 4, { parent: "top", depth: 1, jobs_pending: 1 }), aProject("more", 2, 1, 2, { parent: "top", depth: 1 }));
    const found = (treeFilter: { text: string; status: string }) => treeRows(some, () => false, null, treeFilter).map(({ row }) => row.project);
    expect(found({ text: "", status: "below fair share" })).toEqual(["low"]);
    expect(found({ text: "o", status: "borrowing" })).toEqual(["more"]);
  });

  it("escapes names in URLs", () => expect(projectPath("pool a", "x/y&z")).toBe("/pool%20a/projects?project=x%2Fy%26z"));
});

it("jobs of a project: evicting, running, pending, then the rest", () => {
  const jobs = (["paused", "pending", "running", "evicting"] as const).map((state) => aJob(state, { state }));
  expect(jobsOf([...jobs, aJob("other", { project: "x" })], (name) => name === "research").map((job) => job.job)).toEqual(["evicting", "running", "pending", "paused"]);
});

const aSeries = (project: string, changed: Partial<ProjectSeries>): ProjectSeries => ({ project, gpus: [], quota: [], fair_share: [], past_use: [], borrowed: [], gpu_hours: 0, borrowed_gpu_hours: 0, max_gpus: 0, max_borrowed: 0, borrowed_part: 0, ...changed });

describe("usage over time", () => {
  const item = (gpus: number, quota: number | null, at: number): UsagePoint => ({ time: `2026-01-01T00:0${at}:00Z`, gpus, quota, fair_share: 6, past_use: null, borrowed: quota === null ? null : Math.max(0, gpus - quota) });

  it("of each interval, within the quota and above it", () => {
    const found = usageLines([item(3, 4, 0), item(6, 4, 1), item(6, null, 2)]);
    expect(found.map(({ name, values }) => [name, values])).toEqual([["used, within the quota", [3, 4, 6]], ["borrowed", [0, 2, 0]], ["quota", [4, 4, null]], ["fair share", [6, 6, 6]]]);
  });

  it("past use is a line where it counts in shares", () => {
    const points = withCurrent([item(3, 4, 0)], aProject("p", 6, 4, 6, { past_use: { gpus: 1.5, cpu_milli: 0, memory_bytes: 0 } }), "2026-01-01T00:01:00Z");
    expect(usageLines(points).at(-1)).toEqual({ name: "past use", kind: "line", colour: "--cat-2", values: [null, 1.5] });
  });

  it("a mean of what was borrowed is not the mean use above the mean quota", () => {
    const series = aSeries("p", { gpus: [4], quota: [4], borrowed: [2], fair_share: [6] });
    const points = pointsOf({ from: null, to: null, interval_s: 60, times: ["2026-01-01T00:00:00Z"], projects: [series] }, series);
    expect(usageLines(points).slice(0, 2).map(({ values }) => values)).toEqual([[2], [2]]);
  });

  it("is summarized in a sentence; the range ends with the log", () => {
    expect(usageText(aSeries("p", { quota: [4], max_gpus: 6, max_borrowed: 2, borrowed_part: 0.5 }))).toBe("Used at most 6 GPUs, and borrowed at most 2, 50 % of the time.");
    expect(usageText(aSeries("p", { quota: [4], max_gpus: 6, max_borrowed: 2, borrowed_part: 0.001 }))).toBe("Used at most 6 GPUs, and borrowed at most 2, less than 1 % of the time.");
    expect(usageText(aSeries("p", { quota: [4], max_gpus: 3 }))).toBe("Used at most 3 GPUs, and borrowed nothing.");
    expect(usageText(aSeries("p", { quota: [null], max_gpus: 1 }))).toBe("Used at most 1 GPU.");
    expect(rangeStart("2026-01-02T00:00:00Z", "6h")).toBe("2026-01-01T18:00:00.000Z");
  });
});

describe("borrowing over time", () => {
  const row = (project: string, borrowed: (number | null)[], most: number, hours: number): ProjectSeries => aSeries(project, { borrowed, max_borrowed: most, borrowed_gpu_hours: hours, borrowed_part: 0.67 });

  it("omits projects that did not borrow, and the pool", () => {
    const found = { from: null, to: null, interval_s: 60, times: [], projects: [row("a", [1], 2, 1), row("", [3], 3, 3), row("b", [0], 0, 0)] };
    expect(borrowers(found).map((each) => each.project)).toEqual(["a"]);
  });

  it("the largest are lines", () => {
    expect(borrowedLines([row("a", [1, null], 1, 1), row("b", [0, 2], 2, 2)]).map(({ name, kind, values }) => [name, kind, values])).toEqual([["b", "line", [0, 2]], ["a", "line", [1, null]]]);
  });

  it("is described as text", () => expect(borrowedText(row("a", [null, 0, 2, 2], 6, 2.25))).toBe("at most 6 GPUs, 2.3 GPU-h in total, 67 % of the time"));
});

describe("budgets of a project", () => {
  const budget = (name: string, project: string | null, more: Partial<BudgetView> = {}): BudgetView => ({ budget: name, project, user: null, priority_class: null, month: "2026-12", counted_since: "", policy_hours: 10, topped_up_hours: 0, transferred_hours: 0, hours: 10, used_hours: 8, left_hours: 2, level: "warning", warn_at: 80, at_limit: "lowest-class", ...more });

  it("are its own, those above it, and those of all; not those of a user or of others", () => {
    const all = [budget("own", "red-a"), budget("above", "red", { priority_class: "train" }), budget("all", null), budget("user", "red-a", { user: "ada" }), budget("other", "blue")];
    const found = budgetsOf(all, "red-a", ["red"]);
    expect(found.map((each) => [each.budget, sharesText(each)])).toEqual([["own", "red-a"], ["above", "red, class train"], ["all", "all jobs"]]);
  });

  it("what it lost is its own", () => {
    const lost = { lost: 3, restart: 1, preemptions: 2 };
    const report: MonthReport = { month: "2026-12", from: "", to: "", known_until: null, budgets: [], projects: [{ project: "red", used: 9, ...lost, lost_to: [{ project: "blue", ...lost }] }] };
    expect(lossesOf(report, "red")?.lost_to[0]?.project).toBe("blue");
    expect(lossesOf(report, "blue")).toBeNull();
  });
});

it("reservations are shown where the project's jobs may use them, with when they are repeated", () => {
  const of = (reservation: string, project: string, more: Partial<ReservationView> = {}): ReservationView => ({ reservation, project, gpus: 4, begin: "", end: "", now: false, duration_s: 3600, repeat: "never", weekdays: [], times_left: 1, first_begin: "", times: 1, made_at_seq: 7, made_by: "ann", reason: "", ...more });
  const all = [of("course", "vision"), of("all", "research"), of("other", "speech")];
  expect(reservationsOf(all, ["vision", "research"]).map((each) => each.reservation)).toEqual(["course", "all"]);
  expect(repeatText(all[0]!)).toBe("–");
  expect(repeatText(of("a", "b", { repeat: "weekly", weekdays: [1, 3], times_left: 3 }))).toBe("weekly on Tue, Thu (UTC), 3 times left");
  expect(repeatText(of("a", "b", { repeat: "daily" }))).toBe("daily, the last time");
});
