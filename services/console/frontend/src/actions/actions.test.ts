import { describe, expect, it, vi } from "vitest";

import { ApiError, DebouncedQuery, type CurrentUser, type JobState, type RequestOutcome } from "../api";
import { actionChoices, disabledReasons, offlineReason, permissionError, permittedChoices, type JobAction } from "./allowedActions";
import { deadline } from "./drainModes";
import { effectText } from "../shared/effectText";
import { newId, withoutEmpty } from "./requests";
import { RequestSubmission } from "./requestSubmission";
import { scaleRequest } from "./scaleRequest";

const enabled = (state: JobState, nodes: string[] = []): JobAction[] =>
  actionChoices({ state, nodes })
    .filter((each) => each.disabledReason === null)
    .map((each) => each.action);

describe("enabled actions follow from the job's state", () => {
  it.each<[string, JobAction[]]>([
    ["pending", ["pause", "scale", "set-priority-class", "cancel"]],
    ["reserved", ["pause", "scale", "evict", "cancel"]],
    ["starting", ["pause", "migrate", "scale", "evict", "cancel"]],
    ["running", ["pause", "checkpoint", "migrate", "scale", "evict", "cancel"]],
    ["evicting", ["pause", "scale", "cancel"]],
    ["pausing", ["resume", "scale", "cancel"]],
    ["paused", ["resume", "scale", "set-priority-class", "cancel"]],
    ["cancelling", []],
    ["succeeded", []],
  ])("%s", (state, actions) => expect(enabled(state as JobState)).toEqual(actions));

  it("a suspended job with resources can be evicted", () => {
    expect(enabled("suspended", ["node-1"])).toContain("evict");
    expect(enabled("suspended")).not.toContain("evict");
  });

  it("each reason is listed once", () => {
    expect(disabledReasons(actionChoices({ state: "pending", nodes: [] }))).toEqual(["Checkpoint: only a running job can be saved", "Migrate: only a running job can be migrated", "Evict: the job has no resources to give up"]);
    expect(disabledReasons(actionChoices({ state: "cancelling", nodes: [] }))).toHaveLength(1);
  });
});

describe("permissions", () => {
  it("what the policy does not permit is disabled, with its rule", () => {
    const found = permittedChoices(actionChoices({ state: "running", nodes: ["node-1"] }), { cancel: "ann may not cancel train-1 (rule permissions.cancel)", pause: null });
    expect(found.find((each) => each.action === "cancel")?.disabledReason).toContain("permissions.cancel");
    expect(found.find((each) => each.action === "pause")?.disabledReason).toBeNull();
    expect(permittedChoices(actionChoices({ state: "running", nodes: [] }), undefined)).toEqual(actionChoices({ state: "running", nodes: [] }));
  });


  const who = (projects: string[] | null, operator = false): CurrentUser => ({ name: "ann", mode: "local", operator, projects, csrf: "", sign_out: false, time: "" });
  const tree = new Map<string, { parent: string | null }>([["vision", { parent: "research" }], ["research", { parent: null }], ["loop", { parent: "loop" }]]); // prettier-ignore

  it("submitters of the project or an ancestor, and operators, may act", () => {
    expect(permissionError(who(["vision"]), "vision", tree)).toBeNull();
    expect(permissionError(who(["research"]), "vision", tree)).toBeNull();
    expect(permissionError(who([], true), "web", tree)).toBeNull();
    expect(permissionError(who(null), "", tree)).toBeNull();
  });
  it("others may not, with the reason", () => {
    expect(permissionError(who(["vision"]), "research", tree)).toContain("you are a submitter of vision");
    expect(permissionError(who([]), "vision", tree)).toContain("not a submitter of any project");
    expect(permissionError(who(["vision"]), "", tree)).toContain("it has no project");
    expect(permissionError(who(["vision"]), "loop", tree)).not.toBeNull();
    expect(permissionError(null, "vision", tree)).toContain("not signed in");
  });
  it("no one may act while requests cannot be delivered", () => {
    expect(offlineReason("live", true)).toBeNull();
    expect(offlineReason("lost", true)).toContain("connection");
    expect(offlineReason("live", false)).toContain("Kafka");
  });
});

describe("a request is sent once", () => {
  const accepted: RequestOutcome = { id: "i", accepted: true, seq: 7, code: "", reason: "", job: "a" };

  it("however often the button is clicked", async () => {
    let answer!: (answer: RequestOutcome) => void;
    const post = vi.fn((..._: unknown[]) => new Promise<RequestOutcome>((done) => (answer = done)));
    const sending = new RequestSubmission("gpu", newId(), post);
    const first = sending.submit({ kind: "pause", job: "a" });
    expect(await sending.submit({ kind: "pause", job: "a" })).toBeNull();
    answer(accepted);
    expect(await first).toBe(accepted);
    expect(await sending.submit({ kind: "pause", job: "a" })).toBeNull();
    expect(post).toHaveBeenCalledTimes(1);
  });

  it("and retried with the same id after a transport error", async () => {
    const post = vi.fn<(pool: string, id: string) => Promise<RequestOutcome>>().mockRejectedValueOnce(new ApiError(0, "no answer", "")).mockResolvedValueOnce(accepted);
    const sending = new RequestSubmission("gpu", newId(), post);
    await sending.submit({ kind: "pause" });
    expect(sending.state.value.status).toBe("failed");
    await sending.submit({ kind: "pause" });
    expect(post.mock.calls[0]![1]).toBe(post.mock.calls[1]![1]);
    expect(sending.state.value.status).toBe("answered");
  });

  it("has a unique id", () => expect(new Set(Array.from({ length: 50 }, newId)).size).toBe(50));
  it("omits empty fields", () => expect(withoutEmpty({ job: "a", reason: "", node: null, tasks: 0 })).toEqual({ job: "a", tasks: 0 }));
});

describe("a debounced query", () => {
  it("is sent after the delay, and late responses are ignored", async () => {
    vi.useFakeTimers();
    const answers = new Map<string, (text: string) => void>();
    const latest = new DebouncedQuery<string, string>((question) => new Promise((done) => answers.set(question, done)), 400);
    latest.set("a");
    vi.advanceTimersByTime(399);
    latest.set("ab");
    vi.advanceTimersByTime(400);
    expect([...answers.keys()]).toEqual(["ab"]);
    latest.set("abc");
    vi.advanceTimersByTime(400);
    answers.get("abc")!("new");
    await vi.runAllTimersAsync();
    answers.get("ab")!("old");
    await vi.runAllTimersAsync();
    expect(latest.state.value).toEqual({ of: "abc", answer: "new", error: null, loading: false });
    latest.set(null);
    expect(latest.state.value.answer).toBeNull();
    vi.useRealTimers();
  });
});

describe("scaling", () => {
  const groups = [{ count: 1 }, { count: 4 }];
  it("sends the group's task count", () => expect(scaleRequest({ group: 1, tasks: " 8 ", minimum: "3" }, groups)).toEqual({ fields: { group: 1, tasks: 8, min_tasks: 3 } }));
  it.each([["", ""], ["0", ""], ["1.5", ""], ["x", ""], ["10000", ""], ["2", "4"], ["2", "0"]])("refuses %j of which %j", (tasks, minimum) => {
    expect(scaleRequest({ group: 1, tasks, minimum }, groups)).toHaveProperty("fault");
  });
});

describe("texts", () => {
  it("deadlines", () => expect(["30m", "30", "30 min", "2H", "", "0", "1w", "-1", "soon"].map(deadline)).toEqual(["30m", "30m", "30m", "2h", "", null, null, null, null]));
  it("migrations", () => expect(effectText({ effect: "migrates", to: ["a", "b", "c", "d"] })).toBe("migrates to a, b and 2 more"));
  it("starts", () => expect(effectText({ effect: "starts", to: ["a"] })).toBe("starts on a"));
});
