import { PAIRS, TEXTS, TOPOLOGY, type JobFields, type Pair, type PairField, type TextField } from "./jobFields";
import { numeral, scalar } from "./yamlScalar";

const ORDER: (TextField | PairField | "command" | "topology")[] = [
  "name", "project", "class", "command", "gpus", "fraction", "gpu_memory", "gpu_devices", "mig", "cpu", "memory", "tasks", "min_tasks",
  "gpu_model", "nodes", "node_labels", "topology", "pack", "placement", "after", "run_time_limit", "preemptible", "preemption_delay", "grace",
  "kill_after", "on_eviction", "on_failure", "max_failures", "restart_backoff", "elastic", "env", "secrets", "working_dir", "image",
  "sim_run_for", "labels",
]; // prettier-ignore

/** The job file of the form's fields, without empty ones. */
export function fieldsToYaml(fields: JobFields): string {
  const lines = ORDER.flatMap((name) => {
    if (name === "command") return command(fields);
    if (name === "topology") return mapping(name, TOPOLOGY.map((each) => ({ name: each, value: fields.topology[each] })).filter(({ value }) => value));
    if (isPairs(name)) return mapping(name, fields[name].filter((pair) => pair.name));
    return line(name, fields[name]);
  });
  return lines.length ? `${lines.join("\n")}\n` : "";
}

const isPairs = (name: string): name is PairField => (PAIRS as readonly string[]).includes(name);

function line(name: TextField, typed: string): string[] {
  const text = typed.trim();
  if (text === "") return [];
  if (TEXTS[name] === "bool") return [`${name}: ${text}`];
  if (TEXTS[name] === "list") {
    const items = listed(text);
    return items.length === 1 ? [`${name}: ${scalar(items[0]!)}`] : items.length ? [`${name}:`, ...items.map((item) => `  - ${scalar(item)}`)] : [];
  }
  return [`${name}: ${TEXTS[name] === "number" ? numeral(text) : scalar(text)}`];
}

const listed = (text: string): string[] =>
  text
    .split(",")
    .map((item) => item.trim())
    .filter(Boolean);

const mapping = (name: string, pairs: Pair[]): string[] => (pairs.length ? [`${name}:`, ...pairs.map((pair) => `  ${scalar(pair.name)}: ${scalar(pair.value)}`)] : []);

function command({ command: text, argv }: JobFields): string[] {
  if (text === "") return [];
  if (argv) return ["command:", ...text.split("\n").map((word) => `  - ${scalar(word)}`)];
  if (!text.includes("\n")) return [`command: ${scalar(text)}`];
  const lines = text.replace(/\n$/, "").split("\n");
  const asBlock = /^\S/.test(text) && !/\n\n$/.test(text) && lines.every((each) => /^[\t\x20-\x7e\xa1-\ud7ff]*$/.test(each) && !/[^\S \t]/.test(each) && (each === "" || each.trim() !== ""));
  if (!asBlock) return [`command: ${scalar(text)}`];
  return [text.endsWith("\n") ? "command: |" : "command: |-", ...lines.map((each) => (each ? `  ${each}` : ""))];
}
