import { describe, expect, it } from "vitest";

import { fieldsToYaml } from "./fieldsToYaml";
import { EMPTY, generatedName, isGeneratedName, type JobFields } from "./jobFields";
import { kindOf, scalar } from "./yamlScalar";
import { yamlToFields } from "./yamlToFields";

const job = (some: Partial<JobFields>): JobFields => ({ ...EMPTY, ...some });

describe("form fields to YAML and back", () => {
  const whole = job({
    name: "train-1", project: "vision", class: "train", command: "python train.py --lr 0.1", gpus: "4", cpu: "500m", memory: "8GiB",
    tasks: "2", min_tasks: "1", gpu_model: "NVIDIA H200, NVIDIA A100", after: "prep-1, prep-2:ended", node_labels: [{ name: "zone", value: "a" }],
    topology: { topology: "racks", required: "rack", preferred: "" }, run_time_limit: "2h", preemptible: "false", grace: "90s",
    env: [{ name: "LR", value: "0.1" }, { name: "NOTE", value: "it's # 1: yes" }], secrets: [{ name: "TOKEN", value: "hub-token" }],
  }); // prettier-ignore

  it("round trip", () => {
    const text = fieldsToYaml(whole);
    expect(text).toContain("gpus: 4\n");
    expect(text).toContain('  LR: "0.1"\n');
    expect(yamlToFields(text)).toEqual({ fields: whole, comments: false });
  });

  it("omits empty fields", () => expect(fieldsToYaml(job({ name: "a", env: [{ name: "", value: "x" }] }))).toBe("name: a\n"));

  it.each([
    "echo one\necho two", "echo one\necho two\n", "  indented\nafter", "a\n\n\n", 'say "yes" # no\n\ttab', "\n", "one", "yes", "12", "'", '"', "a: b", "- x", "é\u0085\u2028", "a\u00a0b",
    "#", "[1]", "{a}", "a:", "%", "@x", "1:30", "null", "~", "0x10", ".5", "2026-11-22", "&a", "*a", "!x", "|", ">", "x ", " x", "x\\n", "a\tb", "<b onclick=1>",
  ])("preserves the command %j", (command) => {
    expect(yamlToFields(fieldsToYaml(job({ name: "a", command })))).toEqual({ fields: job({ name: "a", command }), comments: false });
  });

  it("preserves a program and its arguments", () => {
    const fields = job({ command: "python\n-c\nprint(1) # 2\n", argv: true });
    expect(yamlToFields(fieldsToYaml(fields))).toEqual({ fields, comments: false });
  });

  it("reads dashes, flow lists, quotes and comments as the server does", () => {
    const parsed = yamlToFields("---\n# mine\nname: a # here\nmin-tasks: 2\ncommand: [python, 'it''s.py', \"a\\u0041\"]\ngpu_model: H200\nenv: {A: b, C: 'd # e'}\npreemptible: no\n");
    const fields = job({ name: "a", min_tasks: "2", command: "python\nit's.py\naA", argv: true, gpu_model: "H200", env: [{ name: "A", value: "b" }, { name: "C", value: "d # e" }], preemptible: "false" });
    expect(parsed).toEqual({ fields, comments: true });
  });

  it.each([
    ["command: |\n  one\n", "one\n"],
    ["command: |\n  one", "one"],
    ["command: |-\n  one\n", "one"],
    ["command: |+\n  one\n\n", "one\n\n"],
    ["command: | # why\n  # one\n", "# one\n"],
  ])("reads the block %j as the server does", (text, command) => {
    expect(yamlToFields(text)).toEqual({ fields: job({ command }), comments: text.includes("why") });
  });

  it("ends a plain value at a comment, whatever quotes it contains", () => {
    expect(yamlToFields('command: echo "a # b"\n')).toMatchObject({ fields: { command: 'echo "a' }, comments: true });
    expect(yamlToFields('command: "echo # b"\n')).toMatchObject({ fields: { command: "echo # b" }, comments: false });
  });
});

describe("unsupported YAML stays in the editor", () => {
  it.each([
    ["groups:\n  - tasks: 1\n    gpus: 2\n", "groups (line 2): not supported by the form"],
    ["name: a\nstale_grace: 5m\n", "stale_grace (line 2): not supported by the form"],
    ["name: 12\n", "name (line 1): expected text, found number"],
    ["env: {PORT: 8080}\n", "PORT: expected text, found number"],
    ["grace: 1:30\n", "is ambiguous"],
    ["command: >\n", "unsupported syntax >"],
    ["name: &a b\n", "unsupported syntax &"],
    ["name: a\n b\n", "multi-line value"],
    ["\tname: a\n", "line 1: Tabs"],
    ["name: a \t\n", "tab"],
    ["name: \u00a0'a'\n", "unusual whitespace"],
    ["name: a\nname: b\n", "line 2: duplicate field name"],
    ["env: {A: b, A: c}\n", "line 1: duplicate field A"],
    ["min-tasks: 1\nmin_tasks: 2\n", "duplicate field"],
    ["command: >\n  folded\n", "unsupported syntax >"],
    ["name: 'open\n", "Missing closing 'quote"],
    ["name: '''", "line 1: unterminated quoted text"],
    ["- a\n", "expected a field with a value"],
    ["name: [a\n", "Flow sequence"],
    ["name: a: b\n", "line 1: Nested mappings"],
    ["name: a\nenv: &e {A: b}\nlabels: *e\n", "line 2: unsupported syntax &"],
    ["name: a\nlabels: *e\n", "line 2: unsupported syntax *"],
    ["name: a\nenv: !!map {A: b}\n", "line 2: unsupported syntax !"],
    ["%YAML 1.2\n---\nname: a\n", "line 1: a directive"],
    ["name: a\n---\nname: b\n", "line 2: "],
    ["? name\n", "line 1: expected a field with a value"],
    ["name: a\n[b]: c\n", "line 2: expected a field with a value"],
    ["name: [?a]\n", "unsupported syntax ?"],
    ["command: |2\n    a\n", "a block with a given indentation"],
    ["constructor: x\n", "not supported by the form"],
  ])("%j", (text, why) => {
    const parsed = yamlToFields(text);
    expect("unsupported" in parsed && parsed.unsupported.join("; ")).toContain(why);
  });

  it.each([51, 10_000])("%i levels: refused, without an exception", (depth) => {
    const parsed = yamlToFields(`name: a\nenv: ${"[".repeat(depth)}${"]".repeat(depth)}\n`);
    expect("unsupported" in parsed && parsed.unsupported[0]).toMatch(/^line 2: (more than 50 levels|Maximum call stack)|^env \(line 2\): more than 50 levels/);
  });

  it("an alias is not followed, however many values it stands for", () => {
    const levels = [..."bcdefghijklmnop"].map((name, index) => `${name}: [${`*${"abcdefghijklmnop"[index]},`.repeat(9)}]`);
    const parsed = yamlToFields(`a: &a x\n${levels.map((line) => line.replace(": ", `: &${line[0]} `)).join("\n")}\n`);
    expect("unsupported" in parsed && parsed.unsupported[0]).toContain("line 1: unsupported syntax &");
  });

  it("is empty without fields", () => expect(yamlToFields("# only this\n")).toEqual({ fields: EMPTY, comments: true }));
});

describe("scalars", () => {
  it("are plain only if YAML 1.1 reads them as the same text", () => {
    expect(["8GiB", "30m", "python a.py", "/bin/sh -c x", "a:b"].map(scalar)).toEqual(["8GiB", "30m", "python a.py", "/bin/sh -c x", "a:b"]);
    for (const text of ["on", "No", "1e3", "", "12", "a: b", "a #b", "x:", "=", "<<", "-1"]) expect(scalar(text)).toMatch(/^"/);
    expect([kindOf("010"), kindOf("0x1f"), kindOf("1_000"), kindOf("2001-12-14"), kindOf("1:30:00")]).toEqual([null, null, null, null, null]);
  });
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
