import { describe, expect, it } from "vitest";

import { EMPTY, madeName, wasMade, type JobFields } from "./fields";
import { fromYaml } from "./fromYaml";
import { writeYaml } from "./writeYaml";
import { kindOf, scalar } from "./yamlScalar";

const job = (some: Partial<JobFields>): JobFields => ({ ...EMPTY, ...some });

describe("the form writes YAML, and YAML goes back into the form", () => {
  const whole = job({
    name: "train-1", project: "vision", class: "train", command: "python train.py --lr 0.1", gpus: "4", cpu: "500m", memory: "8GiB",
    tasks: "2", min_tasks: "1", gpu_model: "NVIDIA H200, NVIDIA A100", node_labels: [{ name: "zone", value: "a" }],
    topology: { topology: "racks", required: "rack", preferred: "" }, run_time_limit: "2h", preemptible: "false", grace: "90s",
    env: [{ name: "LR", value: "0.1" }, { name: "NOTE", value: "it's # 1: yes" }], secrets: [{ name: "TOKEN", value: "hub-token" }],
  }); // prettier-ignore

  it("is read as it was written", () => {
    const text = writeYaml(whole);
    expect(text).toContain("gpus: 4\n");
    expect(text).toContain('  LR: "0.1"\n');
    expect(fromYaml(text)).toEqual({ fields: whole, comments: false });
  });

  it("leaves out what is empty", () => expect(writeYaml(job({ name: "a", env: [{ name: "", value: "x" }] }))).toBe("name: a\n"));

  it.each([
    "echo one\necho two", "echo one\necho two\n", "  indented\nafter", "a\n\n\n", 'say "yes" # no\n\ttab', "\n", "one", "yes", "12", "'", '"', "a: b", "- x", "é\u0085\u2028", "a\u00a0b",
    "#", "[1]", "{a}", "a:", "%", "@x", "1:30", "null", "~", "0x10", ".5", "2026-11-22", "&a", "*a", "!x", "|", ">", "x ", " x", "x\\n", "a\tb", "<b onclick=1>",
  ])("keeps the command %j", (command) => {
    expect(fromYaml(writeYaml(job({ name: "a", command })))).toEqual({ fields: job({ name: "a", command }), comments: false });
  });

  it("keeps a program and its arguments", () => {
    const fields = job({ command: "python\n-c\nprint(1) # 2\n", argv: true });
    expect(fromYaml(writeYaml(fields))).toEqual({ fields, comments: false });
  });

  it("takes fields with dashes, flow lists, quotes and comments as the server does", () => {
    const held = fromYaml("---\n# mine\nname: a # here\nmin-tasks: 2\ncommand: [python, 'it''s.py', \"a\\u0041\"]\ngpu_model: H200\nenv: {A: b, C: 'd # e'}\npreemptible: no\n");
    const fields = job({ name: "a", min_tasks: "2", command: "python\nit's.py\naA", argv: true, gpu_model: "H200", env: [{ name: "A", value: "b" }, { name: "C", value: "d # e" }], preemptible: "false" });
    expect(held).toEqual({ fields, comments: true });
  });

  it("ends a plain value at a comment, whatever quotes stand in it", () => {
    expect(fromYaml('command: echo "a # b"\n')).toMatchObject({ fields: { command: 'echo "a' }, comments: true });
    expect(fromYaml('command: "echo # b"\n')).toMatchObject({ fields: { command: "echo # b" }, comments: false });
  });
});

describe("YAML that is more than the form shows stays in the editor", () => {
  it.each([
    ["groups:\n  - tasks: 1\n    gpus: 2\n", "a list holds more"],
    ["name: a\nstale_grace: 5m\n", "stale_grace (line 2): the form has no such field"],
    ["name: 12\n", "name (line 1): it is no text but a number"],
    ["env: {PORT: 8080}\n", "PORT is no text but a number"],
    ["grace: 1:30\n", "may mean several things"],
    ["command: >\n", "it begins with >"],
    ["name: &a b\n", "it begins with &"],
    ["name: a\n b\n", "several lines"],
    ["\tname: a\n", "tab"],
    ["name: a \t\n", "tab"],
    ["name: \u00a0'a'\n", "unusual blank"],
    ["name: a\nname: b\n", "name stands twice"],
    ["min-tasks: 1\nmin_tasks: 2\n", "it stands twice"],
    ["command: >\n  folded\n", "over several lines"],
    ["name: 'open\n", "does not end"],
    ["- a\n", "no field with a value"],
    ["name: [a\n", "does not end in its line"],
    ["name: a: b\n", "a colon"],
    ["constructor: x\n", "the form has no such field"],
  ])("%j", (text, why) => {
    const held = fromYaml(text);
    expect("more" in held && held.more.join("; ")).toContain(why);
  });

  it("is empty where nothing stands", () => expect(fromYaml("# only this\n")).toEqual({ fields: EMPTY, comments: true }));
});

describe("scalars", () => {
  it("are plain only where YAML 1.1 reads them as the same text", () => {
    expect(["8GiB", "30m", "python a.py", "/bin/sh -c x", "a:b"].map(scalar)).toEqual(["8GiB", "30m", "python a.py", "/bin/sh -c x", "a:b"]);
    for (const text of ["on", "No", "1e3", "", "12", "a: b", "a #b", "x:", "=", "<<", "-1"]) expect(scalar(text)).toMatch(/^"/);
    expect([kindOf("010"), kindOf("0x1f"), kindOf("1_000"), kindOf("2001-12-14"), kindOf("1:30:00")]).toEqual([null, null, null, null, null]);
  });
});

describe("a name is made from the command until somebody gives one", () => {
  it("takes the script's name", () => {
    expect(madeName("python src/Train_Big.py --x", "k3x9")).toBe("train-big-k3x9");
    expect(madeName("", "k3x9")).toBe("job-k3x9");
    expect(madeName("<img src=x>", "k3x9")).toBe("img-k3x9");
  });
  it("follows only its own", () => {
    expect(wasMade(job({ command: "sleep 1", name: "sleep-k3x9" }), "k3x9")).toBe(true);
    expect(wasMade(job({ command: "sleep 1", name: "mine" }), "k3x9")).toBe(false);
  });
});
