import type { CurrentUser, LiveJob, LiveProject } from "../api";

export type JobAction = "pause" | "resume" | "checkpoint" | "migrate" | "scale" | "set-priority-class" | "evict" | "cancel";

/** An action on a job. disabledReason: why it is disabled, as part of a sentence about the job; null: it is enabled. */
export interface Choice {
  action: JobAction;
  name: string;
  disabledReason: string | null;
}

/** By the kind of its request; the permissions of a job are by kind, too. */
interface ActionOnJob {
  name: string;
  /** Of the dialog, followed by the job's name; its submit button; absent: the name. */
  title?: string;
  submit?: string;
  danger?: boolean;
  /** Whether the request takes a reason. */
  reason?: boolean;
}

export const JOB_ACTIONS: Record<JobAction, ActionOnJob> = {
  pause: { name: "Pause", reason: true },
  resume: { name: "Resume", reason: true },
  checkpoint: { name: "Checkpoint", title: "Save", reason: true },
  migrate: { name: "Migrate", reason: true },
  scale: { name: "Scale" },
  "set-priority-class": { name: "Set class", title: "Set the class of" },
  evict: { name: "Evict", reason: true },
  cancel: { name: "Cancel", submit: "Cancel job", danger: true, reason: true },
};

const ENDED = ["succeeded", "failed", "cancelled"];
const RUNNING_STATES = ["starting", "running"];
const PENDING_STATES = ["waiting", "pending", "paused"];

export const hasEnded = (job: Pick<LiveJob, "state">): boolean => ENDED.includes(job.state);

/** The actions on a job in the order of the buttons, enabled as admission would accept them. Of pause and resume, the applicable one. */
export function actionChoices(job: Pick<LiveJob, "state" | "nodes">): Choice[] {
  const paused = job.state === "paused" || job.state === "pausing";
  const actions: JobAction[] = [paused ? "resume" : "pause", "checkpoint", "migrate", "scale", "set-priority-class", "evict", "cancel"];
  return actions.map((action) => ({ action, name: JOB_ACTIONS[action].name, disabledReason: disabledReason(action, job) }));
}

function disabledReason(action: JobAction, { state, nodes }: Pick<LiveJob, "state" | "nodes">): string | null {
  if (ENDED.includes(state)) return "the job has ended";
  if (state === "cancelling") return "the job is already being cancelled";
  switch (action) {
    case "checkpoint":
      return state === "running" ? null : "only a running job can be saved";
    case "migrate":
      if (state === "suspended") return "the job is suspended because a decision about it failed; it can only be cancelled";
      return RUNNING_STATES.includes(state) ? null : "only a running job can be migrated";
    case "evict":
      if (state === "evicting" || state === "pausing") return "the job is already being evicted";
      return RUNNING_STATES.includes(state) || state === "reserved" || (state === "suspended" && nodes.length > 0) ? null : "the job has no resources to give up";
    case "set-priority-class":
      return PENDING_STATES.includes(state) ? null : "the class can only be changed while the job is pending or paused";
    default:
      return null;
  }
}

/** Why the user may not act on jobs of the project; null: they may. Rights on a project include its children. */
export function permissionError(who: CurrentUser | null, project: string, projects: ReadonlyMap<string, Pick<LiveProject, "parent">>): string | null {
  if (who === null) return "You are not signed in.";
  if (who.operator || who.projects === null) return null;
  const passed = new Set<string>();
  for (let at: string | null = project; at && !passed.has(at); at = projects.get(at)?.parent ?? null) {
    if (who.projects.includes(at)) return null;
    passed.add(at);
  }
  if (!who.projects.length) return "You have read-only access: you are not a submitter of any project.";
  return `You have read-only access to this job: ${project ? `it belongs to project ${project}` : "it has no project"}; you are a submitter of ${who.projects.join(", ")}.`;
}

/** `/api/pools/{pool}/jobs/{job}/permissions`: why the policy does not permit the request, by its kind; null: it does. */
export type Permissions = Record<string, string | null | undefined>;

/** The actions, of which those that the policy does not permit this user are disabled. */
export function permittedChoices(found: Choice[], permissions: Permissions | undefined): Choice[] {
  return found.map((each) => ({ ...each, disabledReason: permissions?.[each.action] ?? each.disabledReason }));
}

/** The reasons why actions are disabled, each once: `Migrate, Evict: only a running job can be migrated`. */
export function disabledReasons(found: Choice[]): string[] {
  const byReason = new Map<string, string[]>();
  for (const { name, disabledReason } of found) {
    if (disabledReason !== null) byReason.set(disabledReason, [...(byReason.get(disabledReason) ?? []), name]);
  }
  return [...byReason].map(([reason, names]) => `${names.join(", ")}: ${reason}`);
}

/** Shown in an open dialog when its job ends before the request was sent. */
export const endedText = (job: string): string => `${job} has ended in the meantime; no request is possible.`;

/** Why no request can be sent now; null: it can. */
export function offlineReason(connection: "opening" | "live" | "lost", kafka: boolean): string | null {
  if (connection === "lost") return "The connection to the console is lost. The data shown is stale, and requests cannot be sent until it is restored.";
  if (connection === "opening") return "Connecting to the console…";
  return kafka ? null : "Kafka is unavailable. Requests cannot be sent until it responds.";
}
