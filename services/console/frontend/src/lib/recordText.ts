// Titles and one-line summaries of records, from their type and fields. The server provides the full sentences.
import { exitText } from "./exitText";
import { capital, shortened } from "./format";
import { sanitizeLine } from "./sanitizeLine";

/** `Job placed` for `JobPlaced` or `bailiff.audit.JobPlaced.v1`. */
export function typeTitle(type: string): string {
  const name = type.replace(/^bailiff\.audit\./, "").replace(/\.v\d+$/, "");
  const spaced = name.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  return capital(spaced);
}

const MAX_LENGTH = 160;
/** Fields of the summary, in this order; the record itself has all of them. */
const SUMMARY_FIELDS = ["outcome", "cause", "stage", "mode", "reason", "because", "text", "task", "tasks", "attempt", "step", "exit_code", "decided_by", "preemption", "idle", "notified", "victims", "nodes"];

/** The fields of a record in one line: `outcome preempted, cause preemption, attempt 2`. */
export function summary(data: Record<string, unknown> | null): string {
  const parts = SUMMARY_FIELDS.flatMap((name) => {
    const value = data?.[name];
    if (typeof value === "string") return value === "" ? [] : [name === "reason" || name === "text" ? value : `${spaced(name)} ${spaced(value)}`];
    if (typeof value === "number" && name === "exit_code") return [exitText(value)];
    if (typeof value === "number") return [name === "decided_by" || name === "preemption" ? `${spaced(name)} #${value}` : `${spaced(name)} ${value}`];
    if (value === true) return [spaced(name)];
    return Array.isArray(value) && value.length ? [`${value.length} ${value.length === 1 ? name.replace(/s$/, "") : name}`] : [];
  });
  return shortened(sanitizeLine(parts.join(", ")), MAX_LENGTH);
}

const spaced = (name: string): string => name.replaceAll("_", " ");

/** `It needs 8 GPUs.` for `needs 8 GPUs`; `Project a is full.` for `project a is full`. */
export function sentence(text: string): string {
  const plain = sanitizeLine(text).trim();
  const whole = /^(needs|requests|requires|waits|may|has|is|was|would) /.test(plain) ? `It ${plain}` : capital(plain);
  return /[.!?…]$/.test(whole) ? whole : `${whole}.`;
}

const BRIEF_LENGTH = 170;

/** The leading clauses of a long text. `bailiff explain` has all of it. */
export function brief(text: string): string {
  const whole = sentence(text).replace(/, it would need: (?:\w+: )?/, "; it needs ");
  if (whole.length <= BRIEF_LENGTH) return whole;
  const clauses = whole.split("; ");
  let kept = clauses.shift()!;
  while (clauses.length && kept.length + clauses[0]!.length + 2 <= BRIEF_LENGTH) kept += `; ${clauses.shift()}`;
  if (kept.length > BRIEF_LENGTH) return `${kept.slice(0, BRIEF_LENGTH).replace(/\s+\S*$/, "")} …`;
  return sentence(kept);
}

const QUIET_TYPES = new Set(["ClockAdvanced", "ClockStepped", "InputsAdvanced", "ProposalReceived", "StateDigest", "TaskProgressed", "PreemptionRequested"]);

/** Whether records of this type are internal bookkeeping, hidden by default. */
export const isQuiet = (type: string): boolean => QUIET_TYPES.has(type);
