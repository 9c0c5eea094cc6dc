import type { LiveJob } from "../live/shapes";

/** The buttons of a job: what may be asked for now, each with what it will cause shown before it is sent. */
export function JobActions(_: { pool: string; job: LiveJob }) {
  return null;
}
