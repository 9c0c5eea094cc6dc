// How a GPU looks on a small map: a colour of its job, and a sign, so that colour is never alone.
import type { Cell } from "../live/shapes";

const COLOURS = 10;

/** One of the categorical colours, the same for the same job everywhere. */
export function colourOf(job: string): number {
  let hash = 7;
  for (let at = 0; at < job.length; at += 1) hash = (hash * 31 + job.charCodeAt(at)) >>> 0;
  return hash % COLOURS;
}

/** The sign in a cell: of a job its first letter; ◌ promised, ✕ out of use, nothing where it is free. */
export function signOf([state, job, reserved, others]: Cell): string {
  if (state === "unhealthy" || state === "quarantined") return "✕";
  if (state === "shared") return String(others.length);
  if (state === "reserved") return reserved ? first(reserved) : "◌";
  return job ? first(job) : "";
}

/** What a cell says, in words. */
export function cellWords([state, job, reserved, others, trouble]: Cell): string {
  if (state === "held") return `held by ${job}`;
  if (state === "leaving") return `${job ?? "a job"} leaves${reserved ? `, promised to ${reserved}` : ""}`;
  if (state === "reserved") return `reserved for ${reserved}`;
  if (state === "shared") return `shared by ${others.join(", ")}`;
  return trouble ? `${state}: ${trouble}` : state;
}

const first = (job: string): string => [...job][0]!.toUpperCase();
