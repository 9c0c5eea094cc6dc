// The fields of the job form, named as in the job file; values are the text typed.

export interface Pair {
  name: string;
  value: string;
}

/** text: any; number: written without quotes; bool: `true`, `false` or empty; list: separated by commas. */
type Kind = "text" | "number" | "bool" | "list" | "command" | "pairs" | "topology";

/** In the order of a new job file. */
export const FIELDS = {
  name: "text",
  project: "text",
  class: "text",
  command: "command",
  gpus: "number",
  fraction: "number",
  gpu_memory: "text",
  gpu_devices: "number",
  mig: "text",
  cpu: "number",
  memory: "text",
  tasks: "number",
  min_tasks: "number",
  gpu_model: "list",
  nodes: "list",
  node_labels: "pairs",
  topology: "topology",
  pack: "text",
  placement: "text",
  after: "list",
  begin: "text",
  run_time_limit: "text",
  preemptible: "bool",
  preemption_delay: "text",
  grace: "text",
  kill_after: "text",
  on_eviction: "text",
  on_failure: "text",
  max_failures: "number",
  restart_backoff: "text",
  elastic: "text",
  env: "pairs",
  secrets: "pairs",
  working_dir: "text",
  image: "text",
  sim_run_for: "text",
  labels: "pairs",
} as const satisfies Record<string, Kind>;

type Named<K extends Kind> = { [N in keyof typeof FIELDS]: (typeof FIELDS)[N] extends K ? N : never }[keyof typeof FIELDS];
export const TOPOLOGY = ["topology", "required", "preferred"] as const;

export type TextField = Named<"text" | "number" | "bool" | "list">;
export type PairField = Named<"pairs">;
type TopologyField = (typeof TOPOLOGY)[number];

/** command: for the shell or, with `argv`, a program and its arguments, one per line. */
export type JobFields = { command: string; argv: boolean; topology: Record<TopologyField, string> } & Record<TextField, string> & Record<PairField, Pair[]>;

export const EMPTY = {
  ...Object.fromEntries(Object.entries(FIELDS).map(([name, kind]) => [name, kind === "pairs" ? [] : ""])),
  argv: false,
  topology: { topology: "", required: "", preferred: "" },
} as unknown as JobFields;

/** What a new job begins with. */
export const NEW_JOB: JobFields = { ...EMPTY, gpus: "1" };

/** The kind of GPU request. */
export type GpuKind = "whole" | "fraction" | "memory" | "mig";

export const gpuKind = (fields: JobFields): GpuKind => (fields.fraction ? "fraction" : fields.gpu_memory ? "memory" : fields.mig ? "mig" : "whole");

/** A job name generated from the command: `train-x3k9` for `python train.py`. suffix: makes it unique. */
export function generatedName(command: string, suffix: string): string {
  const words = command.split(/\s+/).filter(Boolean);
  const stem = (words.find((word) => /\.(py|sh)$/.test(word)) ?? words[0] ?? "job").split("/").pop()!.replace(/\.[^.]*$/, "");
  const base = stem.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 50) || "job";
  return `${base}-${suffix}`;
}

/** Whether the name was generated, so that it follows the command. */
export const isGeneratedName = (fields: JobFields, suffix: string): boolean => fields.name === "" || fields.name === generatedName(fields.command, suffix);
