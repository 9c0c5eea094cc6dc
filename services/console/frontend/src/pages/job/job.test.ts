import { describe, expect, test } from "vitest";

import { Refusal } from "../../lib/api";
import type { LiveJob } from "../../live/shapes";
import { eventRows } from "./events";
import { presenceOf, type Sources } from "./presence";
import { checkpoints, progressOf } from "./progress";
import { alternatives, fromLive, reasonOf } from "./reason";
import type { Attempt, Eviction, JobDetails, JobWhole, RecordItem } from "./shapes";
import { afterText, proofsOf, stagesOf } from "./stages";
import { ticks, timelineOf } from "./timeline";

const at = (seconds: number): string => new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString();
const time = (seconds: number): number => Date.UTC(2026, 0, 1) + seconds * 1000;

const LIVE: LiveJob = {
  job: "train-7", project: "research", class: "train", priority: 50, preemptible: true, state: "running", gpus: 8, gpus_text: "8", placed: 8, tasks: 8,
  min_tasks: 8, nodes: ["node-1"], reserved_nodes: [], attempt: 1, evictions: 0, submitted_at: at(0), started_at: at(10), waiting_since: null, ahead: null,
  note: "", why: "", why_seq: null, why_rule: null, user: "", step: null, checkpoint_step: null, checkpoint_at: null, eviction: null, back: null,
};
const ATTEMPT: Attempt = {
  job: "train-7", submitted_seq: 5, attempt: 1, verb: "allocate", nodes: ["node-1"], placed_seq: 6, placed_at: at(5), started_at: at(10), ended_at: null,
  ended_seq: null, ran_s: null, outcome: null, cause: null, lost_gpu_hours: null,
};
const EVICTION: Eviction = {
  decided_seq: 118, decided_at: at(100), job: "train-7", submitted_seq: 5, attempt: 1, tasks: "", project: "research", priority_class: "train", cause: "preemption",
  verb: "preempt", for_job: "serve-2", for_class: "inference", for_priority: 125, why: "", gpus: 8, lost_gpu_hours: 0.5, cost: { classes: [{ priority: 50, gpu_milli: 8000 }] },
  explanation: null, stages: {}, until_released_s: null, until_resumed_s: null, outcome: null,
};
const WHOLE: JobWhole = {
  job: "train-7", submitted_seq: 5, project: "research", user: "u-1", priority_class: "train", tasks: 8, gpus: 8, state: "running", attempt: 1, submitted_at: at(0),
  first_started_at: at(10), waited_s: 10, ended_at: null, ended_seq: null, outcome: null, reason: null, waits_because: null, attempts: [ATTEMPT], evictions: [],
};
const drawn = (line: ReturnType<typeof timelineOf>) => line!.lanes.map((lane) => [lane.name, ...lane.segments.map((part) => `${part.kind} ${(part.from - time(0)) / 1000}-${part.open ? "" : (part.to - time(0)) / 1000}`)]);

describe("the timeline", () => {
  test("waits, is placed, runs", () => {
    expect(drawn(timelineOf(WHOLE, LIVE, time(60)))).toEqual([["In the queue", "waiting 0-5"], ["Attempt 1", "reserved 5-10", "running 10-"]]);
  });

  test("is told to leave, leaves, waits again, runs elsewhere", () => {
    const stages = { noticed: at(101), released: at(110), resumed: at(200) };
    const whole = {
      ...WHOLE,
      attempts: [{ ...ATTEMPT, ended_at: at(111), outcome: "preempted" }, { ...ATTEMPT, attempt: 2, nodes: ["node-2"], placed_at: at(190), started_at: at(200) }],
      evictions: [{ ...EVICTION, stages }],
    };
    const line = timelineOf(whole, { ...LIVE, attempt: 2, evictions: 1, nodes: ["node-2"], started_at: at(200) }, time(300));
    expect(drawn(line)).toEqual([
      ["In the queue", "waiting 0-5", "waiting 110-190"],
      ["Attempt 1", "reserved 5-10", "running 10-100", "leaving 100-110"],
      ["Attempt 2", "reserved 190-200", "running 200-"],
    ]);
    expect(line!.lanes[1]!.marks).toEqual([{ at: time(100), seq: 118, text: "for serve-2" }]);
  });

  test("of a job that waits again the queue is open; a paused and an ended one does not wait", () => {
    const whole = { ...WHOLE, state: "pending", attempts: [{ ...ATTEMPT, ended_at: at(111), outcome: "preempted" }], evictions: [EVICTION] };
    const waits = { ...LIVE, state: "pending", started_at: null, waiting_since: at(111), nodes: [] };
    expect(drawn(timelineOf(whole, waits, time(300)))[0]).toEqual(["In the queue", "waiting 0-5", "waiting 111-"]);
    const over = { ...whole, state: "cancelled", ended_at: at(150), outcome: "cancelled" };
    expect(drawn(timelineOf(over, null, time(9_000)))[0]).toEqual(["In the queue", "waiting 0-5"]);
    expect(timelineOf(over, null, time(9_000))!.to).toBe(time(150));
  });

  test("an eviction that was taken back, or of some tasks, does not end the attempt", () => {
    for (const eviction of [{ ...EVICTION, stages: { withdrawn: at(105) }, outcome: "withdrawn" }, { ...EVICTION, tasks: "4-7" }]) {
      expect(drawn(timelineOf({ ...WHOLE, evictions: [eviction] }, LIVE, time(300)))[1]).toEqual(["Attempt 1", "reserved 5-10", "running 10-"]);
    }
  });

  test("without the archive: what the live row knows, and it says that this is not the whole", () => {
    const line = timelineOf(null, { ...LIVE, attempt: 3, started_at: at(500) }, time(600));
    expect(drawn(line)).toEqual([["In the queue"], ["Attempt 3", "running 500-"]]);
    expect(line!.whole).toBe(false);
    expect(drawn(timelineOf(null, { ...LIVE, started_at: null, waiting_since: at(0), attempt: 0, nodes: [] }, time(60)))).toEqual([["In the queue", "waiting 0-"]]);
    expect(timelineOf(null, null, time(60))).toBeNull();
  });

  test("the live row is ahead of the archive for a second", () => {
    expect(drawn(timelineOf({ ...WHOLE, attempts: [{ ...ATTEMPT, started_at: null }] }, LIVE, time(60)))[1]).toEqual(["Attempt 1", "reserved 5-10", "running 10-"]);
    const leaves = { ...LIVE, state: "evicting", eviction: { for_job: "serve-2", cause: "preemption", stage: "noticed", decided_seq: 118, began_at: at(50), deadline: at(80) } };
    expect(drawn(timelineOf(WHOLE, leaves, time(60)))[1]).toEqual(["Attempt 1", "reserved 5-10", "running 10-50", "leaving 50-"]);
  });

  test.each([30, 600, 7_200, 200_000, 5_000_000, 90_000_000])("over %i s there are a few round ticks", (seconds) => {
    const found = ticks(time(7), time(7 + seconds), 6);
    expect(found.length).toBeGreaterThan(0);
    expect(found.length).toBeLessThanOrEqual(7);
    expect(new Set(found.map((tick) => tick.text)).size).toBe(found.length);
  });
});

describe("the way out", () => {
  test("in the order of time, with how long after the decision", () => {
    const found = stagesOf({ ...EVICTION, stages: { released: at(112), noticed: at(100.4), term_sent: at(110), checkpoint_committed: at(110), made_up: at(1) } });
    expect(found.map((stage) => [stage.name, afterText(stage.after!)])).toEqual([
      ["decided", "+0 s"], ["noticed", "+0.4 s"], ["checkpoint_committed", "+10 s"], ["term_sent", "+10 s"], ["released", "+12 s"],
    ]);
  });

  test("the proof of a release: what its GPUs showed before and after", () => {
    const record = (attempt: number, data: object): RecordItem => ({ seq: 9, time: at(1), type: "TaskReleased", kind: "fact", turn: 1, epoch: 1, job: "a", actor: null, hash: "", data: { attempt, task: 2, node: "node-1", ...data } });
    const reading = (memory_used: number, processes: number) => ({ device: "GPU-1", memory_used, processes });
    const [proof] = proofsOf([record(1, { before: [reading(5_000, 1), reading(6_000, 1)], after: [reading(0, 0), reading(10, 0)] }), record(2, {})], 1);
    expect(proof).toMatchObject({ task: 2, devices: 2, before: 11_000, after: 10, processes: 0 });
    expect(proofsOf([record(1, {})], 1)[0]).toMatchObject({ before: null, after: null, processes: null });
  });
});

describe("the four answers", () => {
  test("of a preemption that is over", () => {
    const over = { ...EVICTION, stages: { resumed: at(280) }, until_resumed_s: 180 };
    expect(reasonOf(over, LIVE, null, true)).toEqual({
      forJob: "serve-2", forWhom: "inference 125", rule: "inference 125 goes before train 50 (rule lower-priority-only).",
      lost: "30.0 GPU-min of work since its last checkpoint, and the restart.", back: "It ran again 3 min after the decision.", isBack: true,
    });
  });

  test("when it is back, while it is not", () => {
    const back = (live: Partial<LiveJob> | null, ended: string | null = null, last = true) => reasonOf(EVICTION, live && { ...LIVE, ...live }, ended, last).back;
    expect(back({ state: "pending", back: "Before it in the queue: a." })).toBe("Before it in the queue: a.");
    expect(back({ state: "pending", ahead: 0 })).toContain("first in the queue");
    expect(back({ state: "pending", ahead: 3 })).toContain("3 jobs before it");
    expect(back({ state: "paused" })).toContain("paused");
    expect(back(null, "cancelled")).toBe("Never: it was cancelled.");
    expect(back({ state: "running" }, null, false)).toBe("That is not known here.");
    expect(reasonOf({ ...EVICTION, outcome: "spared" }, LIVE, null, true).back).toContain("stayed");
  });

  test("reclaim and what nobody needed the room for", () => {
    expect(reasonOf({ ...EVICTION, verb: "reclaim" }, LIVE, null, true).rule).toContain("project research holds more than its share");
    const drained = reasonOf({ ...EVICTION, cause: "drain", verb: null, for_job: null, for_class: null, lost_gpu_hours: 0 }, LIVE, null, true);
    const eviction = { for_job: "serve-9", cause: "preemption", stage: "noticed", decided_seq: 118, began_at: null, deadline: null };
    expect(reasonOf(EVICTION, { ...LIVE, state: "evicting", eviction }, null, true).forWhom).toBe("inference 125; the room is now for serve-9");
    expect([drained.forWhom, drained.rule, drained.lost]).toEqual(["For no other job: a node that it stood on is being emptied.", "Because a node that it stood on is being emptied.", "Nothing."]);
  });

  test("what else could have been done", () => {
    const why = { proven: true, candidates: 4, runner_up: ["a", "b"], runner_up_lost_gpu_ms: 120_000, excluded: [{ rule: "min-runtime", jobs: 12, examples: ["x", "y"] }] };
    expect(alternatives(why)).toEqual([
      "It is proven that no permitted set of jobs is cheaper.", "Second best would have been a and b, losing 2.0 GPU-min.", "4 jobs could have been taken.",
      "Rule min-runtime shielded 12 jobs (x, y and 10 more): each has not had its minimum run time yet.",
    ]);
    expect(alternatives(null)).toEqual([]);
  });

  test("without the archive, as far as the live row goes", () => {
    const eviction = fromLive({ ...LIVE, eviction: { for_job: "serve-2", cause: "preemption", stage: "noticed", decided_seq: 7, began_at: at(1), deadline: null } })!;
    expect(reasonOf(eviction, LIVE, null, true)).toMatchObject({ forJob: "serve-2", lost: "Not known before it has left." });
    expect(fromLive(LIVE)).toBeNull();
  });
});

describe("whether there is such a job", () => {
  const refused = (status: number) => ({ value: undefined, failure: new Refusal(status, "", "") });
  const nothing = { value: undefined, failure: undefined };
  const SOURCES: Sources = { connection: "live", live: null, details: nothing, whole: nothing, archive: "there" };
  test.each<[string, Partial<Sources>, string]>([
    ["it runs", { live: LIVE, details: refused(503) }, "live"],
    ["nothing has answered yet", { connection: "opening" }, "loading"],
    ["the archive has not answered yet", { details: refused(404) }, "loading"],
    ["it ended lately", { details: { value: {} as JobDetails, failure: undefined } }, "ended"],
    ["it ended long ago", { details: refused(404), whole: { value: WHOLE, failure: undefined } }, "ended"],
    ["nobody knows it", { details: refused(404), whole: refused(404) }, "unknown"],
    ["the archive is away", { details: refused(404), whole: refused(502) }, "unsure"],
    ["there is no archive", { details: refused(404), archive: "none" }, "unsure"],
    ["the console cannot say", { details: refused(503), whole: refused(404) }, "failed"],
  ])("%s", (_, some, presence) => expect(presenceOf({ ...SOURCES, ...some })).toBe(presence));
});

describe("progress", () => {
  const record = (seq: number, type: string, data: object): RecordItem => ({ seq, time: at(seq), type, kind: "fact", turn: 1, epoch: 1, job: "a", actor: null, hash: "", data: data as Record<string, unknown> });
  const saved = (step: number) => ({ step, bytes: 1_000, microseconds: 2_000_000, sha256: "" });
  const RECORDS = [
    record(1, "TaskProgressed", { attempt: 1, task: 0, step: 100, total: 1_000, pace: 2_500, checkpoint: saved(90), ago: 500_000 }),
    record(2, "TaskProgressed", { attempt: 1, task: 0, step: 200, checkpoint: saved(90), ago: 9_000_000 }),
    record(3, "EvictionStaged", { attempt: 1, task: 0, stage: "checkpoint_committed", checkpoint: saved(210) }),
  ];
  test("each checkpoint once, the newest first, at the time when it was saved", () => {
    expect(checkpoints(RECORDS).map((each) => [each.step, each.evicted, each.at])).toEqual([[210, true, at(3)], [90, false, new Date(time(2) - 9_000).toISOString()]]);
  });

  test("how far, of how much, how fast, and what would be done again", () => {
    expect(progressOf({ ...LIVE, step: 260, checkpoint_step: 210, checkpoint_at: at(3) }, null, RECORDS)).toEqual({ step: 260, total: 1_000, savedStep: 210, savedAt: at(3), unsaved: 50, pace: 2.5 });
    expect(progressOf(null, null, [])).toEqual({ step: null, total: null, savedStep: null, savedAt: null, unsaved: null, pace: null });
  });
});

describe("what happened", () => {
  test("one row for each record: told in words where anybody does, the newest first", () => {
    const record = (seq: number, type: string): RecordItem => ({ seq, time: at(seq), type, kind: "fact", turn: 1, epoch: 1, job: "a", actor: null, hash: "", data: { attempt: 1 } });
    const told = [{ seq: 9, time: at(9), type: "JobPlaced", word: "Scheduled", job: "a", project: "", node: null, text: "on node-1" }];
    const lines = [
      "2026-01-01 00:00:03 pool-a#3   job waits            a  no room",
      "2026-01-01 00:00:04 pool-a#4   preemption decided   b → evict  for a",
      "2026-01-01 00:00:04 pool-a#4                        c → evict  for a",
      "not a line",
    ];
    const rows = eventRows(told, [record(9, "JobPlaced"), record(5, "TaskStarted"), record(3, "JobWaits")], lines);
    expect(rows.map((row) => [row.seq, row.word, row.text])).toEqual([
      [9, "Scheduled", "on node-1"], [5, "", ""], [4, "Preemption decided", "b → evict for a; c → evict for a"], [3, "Job waits", "a no room"],
    ]);
    expect(rows.at(-1)!.time).toBe(at(3));
    expect(eventRows([], [], lines.slice(0, 1))[0]!.time).toBe("2026-01-01T00:00:03Z");
  });
});
