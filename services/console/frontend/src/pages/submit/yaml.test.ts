import { describe, expect, it } from "vitest";

import { EMPTY, FIELDS, generatedName, isGeneratedName, type JobFields } from "./jobFields";
import { fieldsOf, withFields } from "./jobYaml";

const job = (some: Partial<JobFields>): JobFields => ({ ...EMPTY, ...some });
const ALL = Object.keys(FIELDS) as (keyof typeof FIELDS)[];
const yamlOf = (some: Partial<JobFields>): string => withFields("", job(some), ALL);
const edited = (yaml: string, some: Partial<JobFields>): string => withFields(yaml, job(some), Object.keys(some) as typeof ALL);

describe("form fields to YAML and back", () => {
  const whole = job({
    name: "train-1", project: "vision", class: "train", command: "python train.py --lr 0.1", gpus: "4", cpu: "500m", memory: "8GiB",
    tasks: "2", min_tasks: "1", gpu_model: "NVIDIA H200, NVIDIA A100", after: "prep-1, prep-2:ended", node_labels: [{ name: "zone", value: "a" }],
    topology: { topology: "racks", required: "rack", preferred: "" }, run_time_limit: "2h", begin: "2026-12-24T08:00+01:00", preemptible: "false", grace: "90s",
    env: [{ name: "LR", value: "0.1" }, { name: "NOTE", value: "it's # 1: yes" }], secrets: [{ name: "TOKEN", value: "hub-token" }],
  }); // prettier-ignore

  it("round trip, in the order of the fields", () => {
    const text = yamlOf(whole);
    expect(text).toContain("name: train-1\nproject: vision\nclass: train\ncommand: python train.py --lr 0.1\ngpus: 4\ncpu: 500m\n");
    expect(text).toContain('  LR: "0.1"\n');
    expect(fieldsOf(text)).toEqual({ fields: whole, others: [] });
  });

  it("omits empty fields", () => expect([yamlOf({ name: "a", env: [{ name: "", value: "x" }] }), yamlOf({})]).toEqual(["name: a\n", ""]));

  it.each([
    "echo one\necho two", "echo one\necho two\n", "  indented\nafter", "a\n\n\n", 'say "yes" # no\n\ttab', "\n", "one", "yes", "12", "'", '"', "a: b", "- x", "é", "a\u00a0b",
    "#", "[1]", "{a}", "a:", "%", "@x", "1:30", "null", "~", "0x10", ".5", "2026-11-22", "&a", "*a", "!x", "|", ">", "x ", " x", "x\\n", "a\tb", "<b onclick=1>", "=", "<<", "1e3", "on",
  ])("preserves the command %j", (command) => {
    expect(fieldsOf(yamlOf({ name: "a", command }))).toEqual({ fields: job({ name: "a", command }), others: [] });
  });

  it("quotes each text that the server would not read as the same text", () => {
    for (const text of ["on", "No", "1e3", "12", "a: b", "a #b", "x:", "=", "<<", "-1", "0x1f", "1:30:00"]) expect(yamlOf({ command: text })).toBe(`command: "${text}"\n`);
    for (const text of ["8GiB", "30m", "python a.py", "/bin/sh -c x"]) expect(yamlOf({ command: text })).toBe(`command: ${text}\n`);
  });

  it("writes an invisible line break as a space: parsers of YAML make different things of it", () => {
    expect(yamlOf({ command: "a\u0085b\u2028c" })).toBe("command: a b c\n");
  });

  it("preserves a program and its arguments", () => {
    const fields = job({ command: "python\n-c\nprint(1) # 2\n", argv: true });
    expect(fieldsOf(withFields("", fields, ALL))).toEqual({ fields, others: [] });
  });

  it("reads dashes, flow lists, quotes and nothing as the server does", () => {
    const found = fieldsOf("---\n# mine\nname: a # here\nmin-tasks: 2\ncommand: [python, 'it''s.py', \"a\\u0041\"]\ngpu_model: H200\nenv: {A: b, C: 'd # e'}\npreemptible: no\ngrace: ~\nlabels:\n");
    const fields = job({ name: "a", min_tasks: "2", command: "python\nit's.py\naA", argv: true, gpu_model: "H200", env: [{ name: "A", value: "b" }, { name: "C", value: "d # e" }], preemptible: "false" });
    expect(found).toEqual({ fields, others: [] });
  });
});

describe("the form changes what was changed in it", () => {
  it("and leaves comments, order, and what it does not know as they are", () => {
    const yaml = "# mine\ngroups:\n  - tasks: 1\n    gpus: 2\nclass: train # cheap\nmin-tasks: 2\nname: a\n";
    expect(fieldsOf(yaml)).toMatchObject({ others: ["groups"], fields: { class: "train", min_tasks: "2" } });
    expect(edited(yaml, { class: "inference", min_tasks: "", cpu: "2" })).toBe("# mine\ngroups:\n  - tasks: 1\n    gpus: 2\nclass: inference # cheap\nname: a\ncpu: 2\n");
    expect(edited("gpus: 1 # one\n", { gpus: "" })).not.toContain("gpus");
  });
});

describe("YAML that has no form stays in the editor", () => {
  it.each([
    ["name: [a, b]\n", "name is written in a way"],
    ["env: {A: [b]}\n", "env is written"],
    ["topology: {level: rack}\n", "topology is written"],
    ["command: [[a]]\n", "command is written"],
    ["name: &a b\n", "name is written"],
    ["name: a\nlabels: *e\n", ""],
    ["name: a\nname: b\n", "unique"],
    ["name: 'open\n", "Missing closing 'quote"],
    ["- a\n", "no mapping"],
    ["name: a\n---\nname: b\n", "multiple documents"],
    ["name: a\u0085b\n", "no mapping"],
  ])("%j", (text, why) => {
    const found = fieldsOf(text);
    expect("fault" in found && found.fault).toContain(why);
  });

  it("ten thousand levels give no form, and no exception", () => expect(fieldsOf(`env: ${"[".repeat(10_000)}${"]".repeat(10_000)}\n`)).toHaveProperty("fault"));

  it("a name that every object has is no field", () => expect(fieldsOf("constructor: x\n")).toMatchObject({ others: ["constructor"] }));
});

describe("job names are generated from the command", () => {
  it("from the script's name", () => {
    expect(generatedName("python src/Train_Big.py --x", "k3x9")).toBe("train-big-k3x9");
    expect(generatedName("", "k3x9")).toBe("job-k3x9");
    expect(generatedName("<img src=x>", "k3x9")).toBe("img-k3x9");
  });
  it("and recognized as generated", () => {
    expect(isGeneratedName(job({ command: "sleep 1", name: "sleep-k3x9" }), "k3x9")).toBe(true);
    expect(isGeneratedName(job({ command: "sleep 1", name: "mine" }), "k3x9")).toBe(false);
  });
});
