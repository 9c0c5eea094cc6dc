import { describe, expect, test } from "vitest";

import { ApiError, type AttemptItem, type Eviction, type JobHistory, type JobPage, type QueuedJob, type RecordItem } from "../../api";
import { ticks } from "../../lib";
import { aJob } from "../../testing/liveRows";
import { claimRows } from "./claimRows";
import { eventRows } from "./eventRows";
import { alternatives, evictionReason, liveEviction } from "./evictionReason";
import { afterText, alikeProofs, evictionStages, proofsOf } from "./evictionStages";
import { jobPresence, type Sources } from "./jobPresence";
import { checkpoints, jobProgress } from "./progressModel";
import { jobTimeline } from "./timelineModel";

const at = (seconds: number): string => new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString();
const time = (seconds: number): number => Date.UTC(2026, 0, 1) + seconds * 1000;

const LIVE: QueuedJob = {
  ...aJob("train-7", { priority: 50, gpus: 8, gpus_text: "8", placed_tasks: 8, tasks: 8, min_tasks: 8, nodes: ["node-1"], submitted_at: at(0), started_at: at(10) }),
  jobs_ahead: null,
};
const ATTEMPT: AttemptItem = {
  job: "train-7", submitted_seq: 5, attempt: 1, action: "allocate", nodes: ["node-1"], placed_seq: 6, placed_at: at(5), started_at: at(10), ended_at: null,
  ended_seq: null, ran_s: null, outcome: null, cause: null, work_lost_gpu_ms: null, restart_gpu_ms: null,
};
const EVICTION: Eviction = {
  decided_seq: 118, decided_at: at(100), job: "train-7", submitted_seq: 5, attempt: 1, tasks: "", project: "research", user: "u-1", user_verified: true, priority_class: "train", cause: "preemption",
  action: "preempt", for_job: "serve-2", for_class: "inference", for_priority: 125, reason: "", gpus: 8, work_lost_gpu_ms: 1_800_000, restart_gpu_ms: 0,
  explanation: { cost: { classes: [{ priority: 50, gpu_milli: 8000 }] } }, stages: {}, until_released_s: null, until_resumed_s: null, outcome: null,
};
const WHOLE: JobHistory = {
  job: "train-7", submitted_seq: 5, project: "research", user: "u-1", user_verified: true, priority_class: "train", tasks: 8, gpus: 8, state: "running", attempt: 1, submitted_at: at(0),
  first_started_at: at(10), waited_s: 10, ended_at: null, ended_seq: null, outcome: null, reason: null, pending_reason: null, pending_reason_at: null, pending_reason_seq: null, attempts: [ATTEMPT], evictions: [],
};
const drawn = (line: ReturnType<typeof jobTimeline>) => line!.lanes.map((lane) => [lane.name, ...lane.segments.map((part) => `${part.kind} ${(part.from - time(0)) / 1000}-${part.open ? "" : (part.to - time(0)) / 1000}`)]);

describe("claims", () => {
  const claims = [{ field: "grace", claimed: "8m", granted: "4m" }];

  test("each is shown with what of it is granted", () => {
    expect(claimRows({ claims, believed: "" })).toEqual([["grace 8m", "granted: 4m"]]);
  });

  test("that the job is believed less is shown, also where it claims nothing", () => {
    expect(claimRows({ claims: [], believed: "less, 2 times in a row" })).toEqual([["believed", "less, 2 times in a row"]]);
  });
});

describe("the timeline", () => {
  test("pending, placed, running", () => {
    expect(drawn(jobTimeline(WHOLE, LIVE, time(60)))).toEqual([["In the queue", "pending 0-5"], ["Attempt 1", "reserved 5-10", "running 10-"]]);
  });

  test("evicted, pending again, running elsewhere", () => {
    const stages = { noticed: at(101), released: at(110), resumed: at(200) };
    const whole = {
      ...WHOLE,
      attempts: [{ ...ATTEMPT, ended_at: at(111), outcome: "preempted" }, { ...ATTEMPT, attempt: 2, nodes: ["node-2"], placed_at: at(190), started_at: at(200) }],
      evictions: [{ ...EVICTION, stages }],
    };
    const line = jobTimeline(whole, { ...LIVE, attempt: 2, evictions: 1, nodes: ["node-2"], started_at: at(200) }, time(300));
    expect(drawn(line)).toEqual([
      ["In the queue", "pending 0-5", "pending 110-190"],
      ["Attempt 1", "reserved 5-10", "running 10-100", "evicting 100-110"],
      ["Attempt 2", "reserved 190-200", "running 200-"],
    ]);
    expect(line!.lanes[1]!.marks).toEqual([{ at: time(100), seq: 118, text: "Preempted for serve-2" }]);
  });

  test("a pending job has an open queue segment; paused and ended ones do not", () => {
    const whole: JobHistory = { ...WHOLE, state: "pending", attempts: [{ ...ATTEMPT, ended_at: at(111), outcome: "preempted" }], evictions: [EVICTION] };
    const pendingJob: QueuedJob = { ...LIVE, state: "pending", started_at: null, pending_since: at(111), nodes: [] };
    expect(drawn(jobTimeline(whole, pendingJob, time(300)))[0]).toEqual(["In the queue", "pending 0-5", "pending 111-"]);
    const over: JobHistory = { ...whole, state: "cancelled", ended_at: at(150), outcome: "cancelled" };
    expect(drawn(jobTimeline(over, null, time(9_000)))[0]).toEqual(["In the queue", "pending 0-5"]);
    expect(jobTimeline(over, null, time(9_000))!.to).toBe(time(150));
  });

  test("a cancelled eviction, or one of some tasks, does not end the attempt", () => {
    for (const eviction of [{ ...EVICTION, stages: { cancelled: at(105) }, outcome: "eviction-cancelled" }, { ...EVICTION, tasks: "4-7" }]) {
      expect(drawn(jobTimeline({ ...WHOLE, evictions: [eviction] }, LIVE, time(300)))[1]).toEqual(["Attempt 1", "reserved 5-10", "running 10-"]);
    }
  });

  test("without the archive: the live row only, marked as incomplete", () => {
    const line = jobTimeline(null, { ...LIVE, attempt: 3, started_at: at(500) }, time(600));
    expect(drawn(line)).toEqual([["In the queue"], ["Attempt 3", "running 500-"]]);
    expect(line!.complete).toBe(false);
    expect(drawn(jobTimeline(null, { ...LIVE, started_at: null, pending_since: at(0), attempt: 0, nodes: [] }, time(60)))).toEqual([["In the queue", "pending 0-"]]);
    expect(jobTimeline(null, null, time(60))).toBeNull();
  });

  test("the live row may be newer than the archive", () => {
    expect(drawn(jobTimeline({ ...WHOLE, attempts: [{ ...ATTEMPT, started_at: null }] }, LIVE, time(60)))[1]).toEqual(["Attempt 1", "reserved 5-10", "running 10-"]);
    const evictingJob: QueuedJob = { ...LIVE, state: "evicting", eviction: { for_job: "serve-2", cause: "preemption", stage: "noticed", decided_seq: 118, started_at: at(50), deadline: at(80), grace_s: 30, stuck: false } };
    expect(drawn(jobTimeline(WHOLE, evictingJob, time(60)))[1]).toEqual(["Attempt 1", "reserved 5-10", "running 10-50", "evicting 50-"]);
  });

  test.each([30, 600, 7_200, 200_000, 5_000_000, 90_000_000])("%i s have a few round ticks", (seconds) => {
    const found = ticks(time(7), time(7 + seconds), 6);
    expect(found.length).toBeGreaterThan(0);
    expect(found.length).toBeLessThanOrEqual(7);
    expect(new Set(found.map((tick) => tick.text)).size).toBe(found.length);
  });

  test("ticks are round on the clock of the chosen zone", () => {
    const found = ticks(time(0), time(4 * 3_600), 5, 90);
    expect(found.map((tick) => tick.text)).toEqual(["02:00", "03:00", "04:00", "05:00"]);
    expect(found[0]!.at).toBe(time(1_800));
  });
});

describe("eviction stages", () => {
  test("by time, with the seconds since the decision", () => {
    const found = evictionStages({ ...EVICTION, stages: { released: at(112), noticed: at(100.4), term_sent: at(110), checkpoint_committed: at(110), made_up: at(1) } });
    expect(found.map((stage) => [stage.name, afterText(stage.after!)])).toEqual([
      ["decided", "+0s"], ["noticed", "+400ms"], ["checkpoint_committed", "+10s"], ["term_sent", "+10s"], ["released", "+12s"],
    ]);
  });

  test("release proof: device readings before and after", () => {
    const record = (attempt: number, data: object): RecordItem => ({ seq: 9, time: at(1), type: "TaskReleased", pool: "pool-a", kind: "fact", cycle: 1, epoch: 1, job: "a", actor: null, actor_verified: null, hash: "", data: { attempt, task: 2, node: "node-1", ...data } });
    const reading = (memory_used: number, processes: number) => ({ device: "GPU-1", memory_used, processes });
    const [proof] = proofsOf([record(1, { before: [reading(5_000, 1), reading(6_000, 1)], after: [reading(0, 0), reading(10, 0)] }), record(2, {})], 1);
    expect(proof).toMatchObject({ task: 2, devices: 2, before: 11_000, after: 10, processes: 0 });
    expect(proofsOf([record(1, {})], 1)[0]).toMatchObject({ before: null, after: null, processes: null });
    const gang = proofsOf([2, 0, 1].map((task) => record(1, { task, before: [reading(9, 1)], after: [reading(task === 1 ? 5 : 0, 0)] })), 1);
    expect(alikeProofs(gang).map((group) => group.map(({ task }) => task))).toEqual([[0, 2], [1]]);
  });
});

describe("eviction reason", () => {
  test("a completed preemption", () => {
    const over = { ...EVICTION, stages: { resumed: at(280) }, until_resumed_s: 180 };
    expect(evictionReason(over, LIVE, null, true)).toEqual({
      forJob: "serve-2", preemptorText: "inference 125", rule: "inference 125 has priority over train 50 (rule lower-priority-only).",
      workLost: "30.0 GPU-min since its last checkpoint, or its start.",  restartCost: null, restart: "It resumed 3m after the decision.", hasRestarted: true,
    });
  });

  test("restart estimate of a job that has not resumed", () => {
    const back = (live: Partial<QueuedJob> | null, ended: string | null = null, last = true) => evictionReason(EVICTION, live && { ...LIVE, ...live }, ended, last).restart;
    expect(back({ state: "pending", restart_estimate: "Before it in the queue: a." })).toBe("Before it in the queue: a.");
    expect(back({ state: "pending", jobs_ahead: 0 })).toContain("first in the queue");
    expect(back({ state: "pending", jobs_ahead: 3 })).toContain("3 jobs ahead");
    expect(back({ state: "paused" })).toContain("paused");
    expect(back(null, "cancelled")).toBe("Never: it was cancelled.");
    expect(back({ state: "running" }, null, false)).toBe("Unknown.");
    expect(evictionReason({ ...EVICTION, outcome: "eviction-cancelled" }, LIVE, null, true).restart).toContain("kept running");
  });

  test("reclaim, and an eviction without a preemptor", () => {
    expect(evictionReason({ ...EVICTION, action: "reclaim" }, LIVE, null, true).rule).toContain("project research used more than its share");
    const drained = evictionReason({ ...EVICTION, cause: "drain", action: null, for_job: null, for_class: null, work_lost_gpu_ms: 0, restart_gpu_ms: 0 }, LIVE, null, true);
    const eviction = { for_job: "serve-9", cause: "preemption", stage: "noticed", decided_seq: 118, started_at: null, deadline: null, grace_s: 30, stuck: false };
    expect(evictionReason(EVICTION, { ...LIVE, state: "evicting", eviction }, null, true).preemptorText).toBe("inference 125; the resources are now reserved for serve-9");
    expect([drained.preemptorText, drained.rule, drained.workLost]).toEqual(["No preemptor: a node that it ran on is drained.", "Because a node that it ran on is drained.", "None."]);
  });

  test("alternatives", () => {
    const why = { proven: true, candidates: 4, runner_up: ["a", "b"], runner_up_lost_gpu_ms: 120_000, excluded: [{ rule: "min-runtime", jobs: 12, examples: ["x", "y"] }] };
    expect(alternatives(why)).toEqual([
      "Victim selection claims to have proven: no permitted set of victims costs less.", "Runner-up: a and b, with 2.0 GPU-min of work lost and restarts.", "4 jobs were eligible victims.",
      "Rule min-runtime protected 12 jobs (x, y and 10 more): each has not run for its minimum run time yet.",
    ]);
    expect(alternatives(null)).toEqual([]);
  });

  test("without the archive, from the live row", () => {
    const eviction = liveEviction({ ...LIVE, eviction: { for_job: "serve-2", cause: "preemption", stage: "noticed", decided_seq: 7, started_at: at(1), deadline: null, grace_s: 30, stuck: false } })!;
    expect(evictionReason(eviction, LIVE, null, true)).toMatchObject({ forJob: "serve-2", workLost: "Unknown until the eviction completes." });
    expect(liveEviction(LIVE)).toBeNull();
  });
});

describe("job presence", () => {
  const refused = (status: number) => ({ value: undefined, failure: new ApiError(status, "", "") });
  const nothing = { value: undefined, failure: undefined };
  const SOURCES: Sources = { connection: "live", live: null, details: nothing, whole: nothing, archive: "there" };
  test.each<[string, Partial<Sources>, string]>([
    ["it is running", { live: LIVE, details: refused(503) }, "live"],
    ["no response yet", { connection: "opening" }, "loading"],
    ["no response of the archive yet", { details: refused(404) }, "loading"],
    ["it ended recently", { details: { value: {} as JobPage, failure: undefined } }, "ended"],
    ["it ended long ago", { details: refused(404), whole: { value: WHOLE, failure: undefined } }, "ended"],
    ["it does not exist", { details: refused(404), whole: refused(404) }, "unknown"],
    ["the archive is unavailable", { details: refused(404), whole: refused(502) }, "unsure"],
    ["no archive is configured", { details: refused(404), archive: "none" }, "unsure"],
    ["the console fails", { details: refused(503), whole: refused(404) }, "failed"],
  ])("%s", (_, some, presence) => expect(jobPresence({ ...SOURCES, ...some })).toBe(presence));
});

describe("progress", () => {
  const record = (seq: number, type: string, data: object): RecordItem => ({ seq, time: at(seq), type, pool: "pool-a", kind: "fact", cycle: 1, epoch: 1, job: "a", actor: null, actor_verified: null, hash: "", data: data as Record<string, unknown> });
  const saved = (step: number) => ({ step, bytes: 1_000, duration: 2_000_000, sha256: "" });
  const RECORDS = [
    record(1, "TaskProgressed", { attempt: 1, task: 0, step: 100, total_steps: 1_000, step_rate_milli: 2_500, checkpoint: saved(90), checkpoint_age: 500_000 }),
    record(2, "TaskProgressed", { attempt: 1, task: 0, step: 200, checkpoint: saved(90), checkpoint_age: 9_000_000 }),
    record(3, "EvictionStageReached", { attempt: 1, task: 0, stage: "checkpoint_committed", checkpoint: saved(210) }),
  ];
  test("each checkpoint once, newest first, at the time when it was saved", () => {
    expect(checkpoints(RECORDS).map((each) => [each.step, each.evicted, each.at])).toEqual([[210, true, at(3)], [90, false, new Date(time(2) - 9_000).toISOString()]]);
  });

  test("step, total, pace and steps since the checkpoint", () => {
    expect(jobProgress({ ...LIVE, step: 260, checkpoint_step: 210, checkpoint_at: at(3) }, null, RECORDS)).toEqual({ step: 260, total: 1_000, savedStep: 210, savedAt: at(3), unsaved: 50, pace: 2.5, done: false });
    expect(jobProgress(null, null, [])).toEqual({ step: null, total: null, savedStep: null, savedAt: null, unsaved: null, pace: null, done: false });
  });
});

describe("job events", () => {
  test("one row per record, with the event text if available, newest first", () => {
    const record = (seq: number, type: string): RecordItem => ({ seq, time: at(seq), type, pool: "pool-a", kind: "fact", cycle: 1, epoch: 1, job: "a", actor: null, actor_verified: null, hash: "", data: { attempt: 1 } });
    const liveLines = [{ seq: 9, time: at(9), type: "JobPlaced", event: "Scheduled", job: "a", project: "", node: null, message: "on node-1" }];
    const lines = [
      "2026-01-01 00:00:03 pool-a#3   job pending          a  no resources",
      "2026-01-01 00:00:04 pool-a#4   preemption decided   b → evict  for a",
      "2026-01-01 00:00:04 pool-a#4                        c → evict  for a",
      "not a line",
    ];
    const rows = eventRows(liveLines, [record(9, "JobPlaced"), record(5, "TaskStarted"), record(3, "JobPending")], lines);
    expect(rows.map((row) => [row.seq, row.word, row.text])).toEqual([
      [9, "Scheduled", "on node-1"], [5, "", ""], [4, "Preemption decided", "b → evict for a; c → evict for a"], [3, "Job pending", "a no resources"],
    ]);
    expect(rows.at(-1)!.time).toBe(at(3));
    expect(eventRows([], [], lines.slice(0, 1))[0]!.time).toBe("2026-01-01T00:00:03Z");
  });
});
