import { describe, expect, it } from "vitest";

import { gpusText } from "../../lib";
import { preemptionGroups, preemptionText } from "../../shared/preemptionGroups";
import { aJob, jobMap } from "../../testing/liveRows";
import { matchesFilter, NO_FILTER, pendingText, queueText, queueView } from "./pendingJobs";
import { sortSections } from "./sectionOrder";

const NOW = Date.parse("2026-01-01T01:00:00Z");
const pendingJob = (name: string, more = {}) => aJob(name, { state: "pending", placed_tasks: 0, started_at: null, pending_since: "2026-01-01T00:30:00Z", ...more });
const evicted = (name: string, for_job: string | null, seq: number, deadline: string | null, cause = "preemption") =>
  aJob(name, { state: "evicting", eviction: { for_job, cause, stage: "noticed", decided_seq: seq, started_at: null, deadline, grace_s: 30, stuck: false } });

describe("the queue", () => {
  const jobs = jobMap(
    pendingJob("second"),
    pendingJob("first", { pending_since: "2026-01-01T00:10:00Z", gpus: 8 }),
    aJob("elastic", { placed_tasks: 2, tasks: 4 }),
    aJob("broken", { state: "suspended" }),
    aJob("asleep", { state: "paused" }),
    aJob("runs"),
  );
  const view = queueView(jobs, ["first", "elastic", "second", "gone"]);

  it("is in the order of the log, and counts only jobs without running tasks", () => {
    expect(view.pending.map(({ job, position }) => [job.job, position])).toEqual([["first", 1], ["second", 2]]);
    expect(view.partial.map((job) => job.job)).toEqual(["elastic"]);
    expect(view.suspended.map((job) => job.job)).toEqual(["broken"]);
    expect(view.paused.map((job) => job.job)).toEqual(["asleep"]);
  });

  it("is summarized in a sentence", () => {
    expect(queueText(view.pending, 1, NOW)).toBe("2 jobs pending, requesting 12 GPUs; 1 GPU free. Longest pending time: 50m.");
    expect(queueText([], 3, NOW)).toBe("No jobs pending; 3 GPUs free.");
  });

  it("shows the reason of each job as a sentence, if there is one", () => {
    expect(pendingText(pendingJob("a", { pending_reason: "no node has 8 GPUs free" }), 3)).toBe("No node has 8 GPUs free.");
    expect(pendingText(pendingJob("a"), 0)).toBe("First in the queue; not tried yet.");
    expect(gpusText(pendingJob("a", { gpus_text: "1" }))).toBe("1 GPU");
    expect(gpusText(pendingJob("a", { gpus_text: "2 × 4GiB" }))).toBe("2 × 4GiB");
  });

  it("filters by project, class and name", () => {
    const job = pendingJob("bert-7", { user: "ada" });
    expect(matchesFilter(job, NO_FILTER, null)).toBe(true);
    expect(matchesFilter(job, { ...NO_FILTER, text: "BERT" }, new Set(["research"]))).toBe(true);
    expect(matchesFilter(job, { ...NO_FILTER, text: "ada" }, null)).toBe(true);
    expect(matchesFilter(job, { ...NO_FILTER, class: "serve" }, null)).toBe(false);
    expect(matchesFilter(job, NO_FILTER, new Set(["serving"]))).toBe(false);
  });
});

describe("preemptions in progress", () => {
  const jobs = jobMap(
    evicted("b", "serve-1", 12, "2026-01-01T01:00:30Z"),
    evicted("a", "serve-1", 11, "2026-01-01T01:00:20Z"),
    evicted("c", null, 9, null, "drain"),
    aJob("serve-1", { state: "reserved", reserved_nodes: ["n1"] }),
    aJob("serve-2", { state: "reserved", reserved_nodes: ["n1", "n2", "n3", "n4"] }),
    aJob("runs"),
  );
  const view = preemptionGroups(jobs);

  it("are grouped by preemptor, oldest decision first, reserved jobs last", () => {
    expect(view.map((each) => each.name)).toEqual([null, "serve-1", "serve-2"]);
    expect(view[1]!.evicting.map((job) => job.job)).toEqual(["a", "b"]);
    expect(view[1]!.deadline).toBe("2026-01-01T01:00:30Z");
    expect(view[1]!.preemptor?.job).toBe("serve-1");
  });

  it("are described in sentences", () => {
    expect(view.map(preemptionText)).toEqual([
      "Evicting 1 job with 4 GPUs, because a node that it ran on is drained.",
      "Preempting 2 jobs with 8 GPUs.",
      "Resources reserved on n1, n2 and 2 more; it starts when they are released.",
    ]);
  });
});

it("unblockers come before pending reasons; the state is omitted", () => {
  const section = (question: string, many = 1) => ({ question, sentences: Array.from({ length: many }, () => ({ text: "x", seqs: [] })) });
  const given = [section("What is its state?"), section("Why is it pending?"), section("What would unblock it?"), section("Which jobs did it preempt?"), section("Empty", 0)];
  expect(sortSections(given).map((each) => each.question)).toEqual(["What would unblock it?", "Why is it pending?", "Which jobs did it preempt?"]);
});
