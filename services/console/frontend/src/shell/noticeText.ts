// Which changes are worth a notice: those of one's own jobs, and for operators those of nodes.
import type { LiveJob, LiveNode } from "../api";

export interface Notice {
  id: number;
  at: number;
  tone: "bad" | "warn" | "good";
  text: string;
  job?: string;
  node?: string;
  /** Whether it is also shown as a notification of the browser. */
  urgent: boolean;
}

export type Draft = Omit<Notice, "id" | "at">;

/** Whether the job is this user's; the console signs requests as `console/ada`. */
export const isMine = (user: string, me: string): boolean => me !== "" && (user === me || user.endsWith(`/${me}`));

export function jobNotice(before: LiveJob | null, after: LiveJob | null, me: string): Draft | null {
  const row = after ?? before;
  if (!row || !isMine(row.user, me)) return null;
  if (before && !after) return { tone: "good", text: `${row.job} has ended.`, job: row.job, urgent: false };
  if (!before || !after) return null;
  if (!before.eviction && after.eviction) {
    const why = after.eviction.for_job ? `is being preempted by ${after.eviction.for_job}` : `is being evicted (${after.eviction.cause})`;
    return { tone: "bad", text: `${row.job} ${why}.`, job: row.job, urgent: true };
  }
  if (before.state !== "running" && after.state === "running") return { tone: "good", text: after.evictions > 0 ? `${row.job} runs again.` : `${row.job} runs.`, job: row.job, urgent: false };
  if (before.state !== "suspended" && after.state === "suspended") return { tone: "bad", text: `${row.job} is suspended.`, job: row.job, urgent: true };
  return null;
}

const SILENT = ["unreachable", "lost"];

const quarantined = (node: LiveNode): number => node.devices.filter(([state]) => state === "quarantined").length;

export function nodeNotice(before: LiveNode | null, after: LiveNode | null): Draft | null {
  if (!before || !after) return null;
  if (!SILENT.includes(before.state) && SILENT.includes(after.state)) return { tone: "bad", text: `Node ${after.node} is ${after.state}.`, node: after.node, urgent: false };
  if (SILENT.includes(before.state) && after.state === "ready") return { tone: "good", text: `Node ${after.node} is ready again.`, node: after.node, urgent: false };
  if (quarantined(after) > quarantined(before)) return { tone: "bad", text: `A GPU of ${after.node} is quarantined.`, node: after.node, urgent: false };
  return null;
}
