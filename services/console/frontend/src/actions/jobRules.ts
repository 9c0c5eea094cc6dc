import type { Me } from "../shell/me";
import type { LiveJob, LiveProject } from "../live/shapes";

export type JobVerb = "pause" | "resume" | "migrate" | "scale" | "set" | "evict" | "cancel";

/** What a job may be asked for. hindrance: why not now, as the end of a sentence about the job; null: it may. */
export interface Choice {
  verb: JobVerb;
  name: string;
  hindrance: string | null;
}

export const NAMES: Record<JobVerb, string> = {
  pause: "Pause",
  resume: "Resume",
  migrate: "Migrate",
  scale: "Scale",
  set: "Set class",
  evict: "Evict",
  cancel: "Cancel",
};

const ENDED = ["succeeded", "failed", "cancelled"];
const RUNS = ["starting", "running"];
const WAITS = ["pending", "paused"];

export const hasEnded = (job: Pick<LiveJob, "state">): boolean => ENDED.includes(job.state);

/** The verbs of a job, in the order of their buttons, as admission would judge them. Of pause and resume the one that makes sense. */
export function choices(job: Pick<LiveJob, "state" | "nodes">): Choice[] {
  const paused = job.state === "paused" || job.state === "pausing";
  const verbs: JobVerb[] = [paused ? "resume" : "pause", "migrate", "scale", "set", "evict", "cancel"];
  return verbs.map((verb) => ({ verb, name: NAMES[verb], hindrance: hindrance(verb, job) }));
}

function hindrance(verb: JobVerb, { state, nodes }: Pick<LiveJob, "state" | "nodes">): string | null {
  if (ENDED.includes(state)) return "it has ended";
  if (state === "cancelling") return "it is being cancelled already";
  switch (verb) {
    case "migrate":
      if (state === "held") return "it is held, because a decision about it failed; it can only be cancelled";
      return RUNS.includes(state) ? null : "only a job that runs can move";
    case "evict":
      if (state === "evicting" || state === "pausing") return "it is leaving already";
      return RUNS.includes(state) || state === "reserved" || (state === "held" && nodes.length > 0) ? null : "it has no place that it could leave";
    case "set":
      return WAITS.includes(state) ? null : "its class can only be changed while it waits";
    default:
      return null;
  }
}

/** Why this person may ask nothing of jobs of that project; null where they may. Who may act on a project may on those below it. */
export function notAllowed(who: Me | null, project: string, projects: ReadonlyMap<string, Pick<LiveProject, "parent">>): string | null {
  if (who === null) return "You are not signed in.";
  if (who.operator || who.projects === null) return null;
  const passed = new Set<string>();
  for (let at: string | null = project; at && !passed.has(at); at = projects.get(at)?.parent ?? null) {
    if (who.projects.includes(at)) return null;
    passed.add(at);
  }
  if (!who.projects.length) return "You may look at this job, and ask nothing of it: nobody gave you a project.";
  return `You may look at this job, and ask nothing of it: ${project ? `it is of the project ${project}` : "it has no project"}, and you act for ${who.projects.join(", ")}.`;
}

/** What stands in the way, each reason once: `Migrate, Evict: only a job that runs can move`. */
export function hindrances(found: Choice[]): string[] {
  const byReason = new Map<string, string[]>();
  for (const { name, hindrance } of found) {
    if (hindrance !== null) byReason.set(hindrance, [...(byReason.get(hindrance) ?? []), name]);
  }
  return [...byReason].map(([reason, names]) => `${names.join(", ")}: ${reason}`);
}

/** What an open dialog says when its job is over before it was sent. */
export const endedText = (job: string): string => `${job} has ended in the meantime: nothing can be asked of it any more.`;

/** Why nothing can be sent now, whatever it is; null: it can. */
export function cutOff(connection: "opening" | "live" | "lost", kafka: boolean): string | null {
  if (connection === "lost") return "The connection to the console is lost: what you see is of before, and nothing can be sent until it is back.";
  if (connection === "opening") return "Connecting to the console…";
  return kafka ? null : "Kafka does not answer: nothing can be sent until it does.";
}
