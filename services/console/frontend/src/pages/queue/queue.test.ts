import { describe, expect, it } from "vitest";

import { gpusText } from "../../lib/terms";
import { aJob, jobMap } from "../pool/rows.fixture";
import { inOrder } from "./explained";
import { makings, makingText } from "./making";
import { ANY, fits, queueText, waitingOf, whyText } from "./waiting";

const NOW = Date.parse("2026-01-01T01:00:00Z");
const waits = (name: string, more = {}) => aJob(name, { state: "pending", placed: 0, started_at: null, waiting_since: "2026-01-01T00:30:00Z", ...more });
const evicted = (name: string, for_job: string | null, seq: number, deadline: string | null, cause = "preemption") =>
  aJob(name, { state: "evicting", eviction: { for_job, cause, stage: "noticed", decided_seq: seq, began_at: null, deadline } });

describe("the queue", () => {
  const jobs = jobMap(
    waits("second"),
    waits("first", { waiting_since: "2026-01-01T00:10:00Z", gpus: 8 }),
    aJob("elastic", { placed: 2, tasks: 4 }),
    aJob("broken", { state: "held" }),
    aJob("asleep", { state: "paused" }),
    aJob("runs"),
  );
  const found = waitingOf(jobs, ["first", "elastic", "second", "gone"]);

  it("is in the order of the log, and counts only who has nothing yet", () => {
    expect(found.waiting.map(({ job, position }) => [job.job, position])).toEqual([["first", 1], ["second", 2]]);
    expect(found.partly.map((job) => job.job)).toEqual(["elastic"]);
    expect(found.held.map((job) => job.job)).toEqual(["broken"]);
    expect(found.paused.map((job) => job.job)).toEqual(["asleep"]);
  });

  it("is told in a sentence", () => {
    expect(queueText(found.waiting, 1, NOW)).toBe("2 jobs wait for 12 GPUs, and 1 GPU is free; the one that waits longest has waited 50 min.");
    expect(queueText([], 3, NOW)).toBe("Nobody waits; 3 GPUs are free.");
  });

  it("gives each its reason as a sentence, and says so where there is none", () => {
    expect(whyText(waits("a", { why: "no node has 8 GPUs free" }), 3)).toBe("No node has 8 GPUs free.");
    expect(whyText(waits("a"), 0)).toBe("It is first, and has not been tried yet.");
    expect(gpusText(waits("a", { gpus_text: "1" }))).toBe("1 GPU");
    expect(gpusText(waits("a", { gpus_text: "2 × 4GiB" }))).toBe("2 × 4GiB");
  });

  it("can be narrowed to a project, a class, a name", () => {
    const job = waits("bert-7", { user: "ada" });
    expect(fits(job, ANY, null)).toBe(true);
    expect(fits(job, { ...ANY, text: "BERT" }, new Set(["research"]))).toBe(true);
    expect(fits(job, { ...ANY, text: "ada" }, null)).toBe(true);
    expect(fits(job, { ...ANY, class: "serve" }, null)).toBe(false);
    expect(fits(job, ANY, new Set(["serving"]))).toBe(false);
  });
});

describe("room that is being made", () => {
  const jobs = jobMap(
    evicted("b", "serve-1", 12, "2026-01-01T01:00:30Z"),
    evicted("a", "serve-1", 11, "2026-01-01T01:00:20Z"),
    evicted("c", null, 9, null, "drain"),
    aJob("serve-1", { state: "reserved", reserved_nodes: ["n1"] }),
    aJob("serve-2", { state: "reserved", reserved_nodes: ["n1", "n2", "n3", "n4"] }),
    aJob("runs"),
  );
  const found = makings(jobs);

  it("is told by whom it is for, the oldest decision first, who only waits for its room last", () => {
    expect(found.map((each) => each.name)).toEqual([null, "serve-1", "serve-2"]);
    expect(found[1]!.leaving.map((job) => job.job)).toEqual(["a", "b"]);
    expect(found[1]!.deadline).toBe("2026-01-01T01:00:30Z");
    expect(found[1]!.asker?.job).toBe("serve-1");
  });

  it("in sentences", () => {
    expect(found.map(makingText)).toEqual([
      "1 job leaves 4 GPUs: drain of the node.",
      "2 jobs leave 8 GPUs for it.",
      "Has its room reserved on n1, n2 and 2 more, and starts when it is free.",
    ]);
  });
});

it("what would free a job is told before why it waits, and where it stands is left to its row", () => {
  const section = (question: string, many = 1) => ({ question, says: Array.from({ length: many }, () => ({ text: "x", seqs: [] })) });
  const given = [section("Where does it stand?"), section("Why does it wait?"), section("What would free it?"), section("Who left for it?"), section("Empty", 0)];
  expect(inOrder(given).map((each) => each.question)).toEqual(["What would free it?", "Why does it wait?", "Who left for it?"]);
});
