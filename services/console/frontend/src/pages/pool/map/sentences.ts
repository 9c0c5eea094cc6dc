// What is to be said of a GPU and of a node, for the tooltip, for screen readers and for the table.
import { few } from "../../../lib/terms";
import { bytes, capital, duration } from "../../../lib/words";
import type { Cell, LiveJob, NodeCells, NodeTelemetry } from "../../../live/shapes";
import { jobOfTask, type Run } from "./selecting";

export const NODE_WORDS: Record<string, string> = {
  ready: "takes work",
  draining: "is being drained: what runs there leaves or ends, and nothing new is placed",
  drained: "is drained: nothing runs there and nothing new is placed",
  unreachable: "cannot be reached: what runs there may go on, and nothing new is placed",
  lost: "is lost: its jobs go on elsewhere",
};

export const cellTitle = (node: NodeCells, gpu: number): string => `${node.node}, GPU ${gpu}`;

/** One sentence each. now: ms. */
export function cellSays(
  node: NodeCells,
  gpu: number,
  jobs: ReadonlyMap<string, LiveJob>,
  told: NodeTelemetry | undefined,
  now: number,
): string[] {
  const cell = node.gpus[gpu];
  if (!cell) return [];
  const [state, holder, promised, sharers, trouble] = cell;
  const job = holder === null ? undefined : jobs.get(holder);
  const said: string[] = [];
  if (state === "held" && holder !== null) said.push(`${holder} holds it${since(job, now)}.`);
  else if (state === "leaving" && holder !== null) said.push(leaves(holder, job, now));
  else if (state === "shared") said.push(`Shared by ${few([...new Set(sharers)], 4)}.`);
  else if (state === "reserved") said.push(`Nobody is on it; it is reserved for ${promised ?? "a job"}.`);
  else if (state === "free") said.push(node.state === "ready" ? "Free." : "Nobody is on it.");
  else if (state === "quarantined") said.push(`Quarantined: nobody gets it until it is proved clean${because(trouble)}.`);
  else if (state === "unhealthy") said.push(`Unhealthy: nobody gets it${because(trouble)}.`);
  if (job) said.push(`${capital(belongs(job))}.`);
  if (state !== "reserved" && promised !== null) said.push(`Reserved for ${whom(promised, jobs)} when it is free.`);
  else if (promised !== null && jobs.has(promised)) said.push(`${capital(belongs(jobs.get(promised)!))}.`);
  if (trouble && state !== "quarantined" && state !== "unhealthy") said.push(`Trouble: ${trouble}.`);
  if (node.state !== "ready") said.push(`The node ${NODE_WORDS[node.state] ?? `is ${node.state}`}.`);
  const device = told?.devices[gpu];
  if (device && (device[0] !== null || device[1] !== null)) {
    const parts = [device[0] === null ? "" : `${Math.round(device[0])} % busy`, device[1] === null ? "" : `${bytes(device[1])} of memory in use`];
    said.push(`${capital(parts.filter(Boolean).join(", "))}.`);
  }
  return said;
}

const since = (job: LiveJob | undefined, now: number): string =>
  job?.started_at ? `, running for ${duration((now - Date.parse(job.started_at)) / 1000)}` : job ? `, ${job.state}` : "";

const because = (trouble: string | null): string => (trouble ? `: ${trouble.replace(/\.$/, "")}` : "");

function leaves(holder: string, job: LiveJob | undefined, now: number): string {
  const eviction = job?.eviction;
  if (!eviction) return `${holder} is leaving it.`;
  const why = eviction.for_job ? ` for ${eviction.for_job}` : ` (${eviction.cause})`;
  const left = eviction.deadline === null ? null : (Date.parse(eviction.deadline) - now) / 1000;
  const when = left === null ? "" : left > 0 ? `; its grace ends in ${duration(left)}` : "; its grace is over";
  return `${holder} is leaving it${why}${when}.`;
}

const whom = (name: string, jobs: ReadonlyMap<string, LiveJob>): string => {
  const job = jobs.get(name);
  return job ? `${name} (${belongs(job)})` : name;
};

/** `project research, class batch` */
export const belongs = (job: LiveJob): string => `${job.project ? `project ${job.project}` : "no project"}, class ${job.class}, priority ${job.priority}`;

/** `GPU 0–3: train-1`, for one line of a table. */
export const runText = ({ from, to, cell }: Run): string => `${from === to ? `GPU ${from}` : `GPU ${from}–${to}`}: ${holdText(cell)}`;

export function holdText([state, holder, promised, sharers, trouble]: Cell): string {
  const then = promised !== null && state !== "reserved" ? `, then ${promised}` : "";
  switch (state) {
    case "held":
      return `${holder ?? "held"}${then}`;
    case "leaving":
      return `${holder ?? "somebody"} is leaving${then}`;
    case "shared":
      return `shared by ${few([...new Set(sharers.map(jobOfTask))], 4)}${then}`;
    case "reserved":
      return `reserved for ${promised ?? "a job"}`;
    case "free":
      return "free";
    default:
      return `${state}${because(trouble)}`;
  }
}
