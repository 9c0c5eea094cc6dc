import { describe, expect, it, vi } from "vitest";

import { Refusal } from "../lib/api";
import type { Me } from "../shell/me";
import { deadline } from "./draining";
import { choices, cutOff, hindrances, notAllowed, type JobVerb } from "./jobRules";
import { Latest } from "./latest";
import { filled, newId, type Answer } from "./requests";
import { scaling } from "./scaling";
import { Sending } from "./sending";
import { does } from "./words";

const possible = (state: string, nodes: string[] = []): JobVerb[] =>
  choices({ state, nodes })
    .filter((each) => each.hindrance === null)
    .map((each) => each.verb);

describe("what a job may be asked for follows from its state", () => {
  it.each<[string, JobVerb[]]>([
    ["pending", ["pause", "scale", "set", "cancel"]],
    ["reserved", ["pause", "scale", "evict", "cancel"]],
    ["starting", ["pause", "migrate", "scale", "evict", "cancel"]],
    ["running", ["pause", "migrate", "scale", "evict", "cancel"]],
    ["evicting", ["pause", "scale", "cancel"]],
    ["pausing", ["resume", "scale", "cancel"]],
    ["paused", ["resume", "scale", "set", "cancel"]],
    ["cancelling", []],
    ["succeeded", []],
  ])("%s", (state, verbs) => expect(possible(state)).toEqual(verbs));

  it("a held job may leave a place that it has", () => {
    expect(possible("held", ["node-1"])).toContain("evict");
    expect(possible("held")).not.toContain("evict");
  });

  it("says each reason once", () => {
    expect(hindrances(choices({ state: "pending", nodes: [] }))).toEqual(["Migrate: only a job that runs can move", "Evict: it has no place that it could leave"]);
    expect(hindrances(choices({ state: "cancelling", nodes: [] }))).toHaveLength(1);
  });
});

describe("who may ask", () => {
  const who = (projects: string[] | null, operator = false): Me => ({ name: "ann", mode: "local", operator, projects, csrf: "", sign_out: false, time: "" });
  const tree = new Map<string, { parent: string | null }>([["vision", { parent: "research" }], ["research", { parent: null }], ["loop", { parent: "loop" }]]); // prettier-ignore

  it("a submitter of a project, or of one above it, and an operator", () => {
    expect(notAllowed(who(["vision"]), "vision", tree)).toBeNull();
    expect(notAllowed(who(["research"]), "vision", tree)).toBeNull();
    expect(notAllowed(who([], true), "web", tree)).toBeNull();
    expect(notAllowed(who(null), "", tree)).toBeNull();
  });
  it("nobody else, and is told so", () => {
    expect(notAllowed(who(["vision"]), "research", tree)).toContain("you act for vision");
    expect(notAllowed(who([]), "vision", tree)).toContain("nobody gave you a project");
    expect(notAllowed(who(["vision"]), "", tree)).toContain("it has no project");
    expect(notAllowed(who(["vision"]), "loop", tree)).not.toBeNull();
    expect(notAllowed(null, "vision", tree)).toContain("not signed in");
  });
  it("and nobody while it could not arrive", () => {
    expect(cutOff("live", true)).toBeNull();
    expect(cutOff("lost", true)).toContain("connection");
    expect(cutOff("live", false)).toContain("Kafka");
  });
});

describe("a request is asked once", () => {
  const accepted: Answer = { id: "i", accepted: true, seq: 7, code: "", reason: "", job: "a" };

  it("however often the button is pressed", async () => {
    let answer!: (answer: Answer) => void;
    const post = vi.fn((..._: unknown[]) => new Promise<Answer>((done) => (answer = done)));
    const sending = new Sending("gpu", newId(), post);
    const first = sending.go({ kind: "pause", job: "a" });
    expect(await sending.go({ kind: "pause", job: "a" })).toBeNull();
    answer(accepted);
    expect(await first).toBe(accepted);
    expect(await sending.go({ kind: "pause", job: "a" })).toBeNull();
    expect(post).toHaveBeenCalledTimes(1);
  });

  it("and with the same id where the first try was lost on its way", async () => {
    const post = vi.fn<(pool: string, id: string) => Promise<Answer>>().mockRejectedValueOnce(new Refusal(0, "no answer", "")).mockResolvedValueOnce(accepted);
    const sending = new Sending("gpu", newId(), post);
    await sending.go({ kind: "pause" });
    expect(sending.state.value.at).toBe("failed");
    await sending.go({ kind: "pause" });
    expect(post.mock.calls[0]![1]).toBe(post.mock.calls[1]![1]);
    expect(sending.state.value.at).toBe("answered");
  });

  it("has an id of its own", () => expect(new Set(Array.from({ length: 50 }, newId)).size).toBe(50));
  it("sends nothing that was left empty", () => expect(filled({ job: "a", reason: "", node: null, tasks: 0 })).toEqual({ job: "a", tasks: 0 }));
});

describe("a question that changes", () => {
  it("is asked when it rests, and an answer that comes late counts for nothing", async () => {
    vi.useFakeTimers();
    const answers = new Map<string, (text: string) => void>();
    const latest = new Latest<string, string>((question) => new Promise((done) => answers.set(question, done)), 400);
    latest.put("a");
    vi.advanceTimersByTime(399);
    latest.put("ab");
    vi.advanceTimersByTime(400);
    expect([...answers.keys()]).toEqual(["ab"]);
    latest.put("abc");
    vi.advanceTimersByTime(400);
    answers.get("abc")!("new");
    await vi.runAllTimersAsync();
    answers.get("ab")!("old");
    await vi.runAllTimersAsync();
    expect(latest.state.value).toEqual({ of: "abc", answer: "new", refusal: null, asking: false });
    latest.put(null);
    expect(latest.state.value.answer).toBeNull();
    vi.useRealTimers();
  });
});

describe("scaling", () => {
  const groups = [{ count: 1 }, { count: 4 }];
  it("asks for one group's number", () => expect(scaling("a", { group: 1, tasks: " 8 ", least: "3" }, groups)).toEqual({ fields: { job: "a", group: 1, tasks: 8, min_tasks: 3 } }));
  it.each([["", ""], ["0", ""], ["1.5", ""], ["x", ""], ["10000", ""], ["2", "4"], ["2", "0"]])("refuses %j of which %j", (tasks, least) => {
    expect(scaling("a", { group: 1, tasks, least }, groups)).toHaveProperty("fault");
  });
});

describe("words", () => {
  it("of deadlines", () => expect(["30m", "30", "30 min", "2H", "", "0", "1w", "-1", "soon"].map(deadline)).toEqual(["30m", "30m", "30m", "2h", "", null, null, null, null]));
  it("of moves", () => expect(does({ what: "moves", to: ["a", "b", "c", "d"] })).toBe("moves to a, b and 2 more"));
  it("of starts", () => expect(does({ what: "starts", to: ["a"] })).toBe("starts on a"));
});
