// Texts about GPUs and nodes for the tooltip, screen readers and the table.
import type { LiveJob, LiveNode, NodeTelemetryRow } from "../../../api";
import { bytes, capital, duration, few } from "../../../lib";
import { cellText } from "../../../shared/gpuCellStyle";
import { NODE_STATE_TEXTS } from "../../../shared/nodes";
import type { Run } from "./gpuFilter";

/** Sentences about a GPU. now: ms. */
export function gpuSentences(
  node: LiveNode,
  gpu: number,
  jobs: ReadonlyMap<string, LiveJob>,
  measured: NodeTelemetryRow | undefined,
  now: number,
): string[] {
  const cell = node.devices[gpu];
  if (!cell) return [];
  const [state, holder, reserved, sharedBy, problem] = cell;
  const job = holder === null ? undefined : jobs.get(holder);
  const sentences: string[] = [];
  if (state === "allocated" && holder !== null) sentences.push(`Allocated to ${holder}${since(job, now)}.`);
  else if (state === "releasing" && holder !== null) sentences.push(releaseText(holder, job, now));
  else if (state === "shared") sentences.push(`Shared by ${few([...new Set(sharedBy)], 4)}.`);
  else if (state === "reserved") sentences.push(`Reserved for ${reserved ?? "a job"}.`);
  else if (state === "free") sentences.push(node.state === "ready" ? "Free." : "Not allocated.");
  else if (state === "quarantined") sentences.push(`Quarantined until it is cleared${because(problem)}.`);
  else if (state === "unhealthy") sentences.push(`Unhealthy, not schedulable${because(problem)}.`);
  if (job) sentences.push(`${capital(jobAttributes(job))}.`);
  if (state !== "reserved" && reserved !== null) sentences.push(`Reserved for ${jobWithProject(reserved, jobs)} after its release.`);
  else if (reserved !== null && jobs.has(reserved)) sentences.push(`${capital(jobAttributes(jobs.get(reserved)!))}.`);
  if (problem && state !== "quarantined" && state !== "unhealthy") sentences.push(`Problem: ${problem}.`);
  const island = node.kinds?.[gpu]?.[2] ?? null;
  if (island !== null) sentences.push(`On the island ${island}.`);
  if (node.state !== "ready") sentences.push(`The node ${NODE_STATE_TEXTS[node.state] ?? `is ${node.state}`}.`);
  const device = measured?.devices[gpu];
  if (device && (device[0] !== null || device[1] !== null)) {
    const parts = [device[0] === null ? "" : `${Math.round(device[0])} % busy`, device[1] === null ? "" : `${bytes(device[1])} of memory in use`];
    sentences.push(`${capital(parts.filter(Boolean).join(", "))}.`);
  }
  return sentences;
}

const since = (job: LiveJob | undefined, now: number): string =>
  job?.started_at ? `, running for ${duration((now - Date.parse(job.started_at)) / 1000)}` : job ? `, ${job.state}` : "";

const because = (problem: string | null): string => (problem ? `: ${problem.replace(/\.$/, "")}` : "");

function releaseText(holder: string, job: LiveJob | undefined, now: number): string {
  const eviction = job?.eviction;
  if (!eviction) return `Being released by ${holder}.`;
  const why = eviction.for_job ? `, preempted by ${eviction.for_job}` : ` (${eviction.cause})`;
  const left = eviction.deadline === null ? null : (Date.parse(eviction.deadline) - now) / 1000;
  const when = left === null ? "" : left > 0 ? `; its grace period ends in ${duration(left)}` : "; its grace period has ended";
  return `Being released by ${holder}${why}${when}.`;
}

const jobWithProject = (name: string, jobs: ReadonlyMap<string, LiveJob>): string => {
  const job = jobs.get(name);
  return job ? `${name} (${jobAttributes(job)})` : name;
};

/** `project research, class batch` */
export const jobAttributes = (job: LiveJob): string => `${job.project ? `project ${job.project}` : "no project"}, class ${job.priority_class}, priority ${job.priority}`;

/** `GPU 0–3: train-1`, for one line of a table. */
export const runSummary = ({ from, to, cell }: Run): string => `${from === to ? `GPU ${from}` : `GPU ${from}–${to}`}: ${cellText(cell)}`;
