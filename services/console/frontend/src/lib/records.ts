// Records of the archive as lines. What a record says in sentences the server tells; here are its type and its fields.
import { plainLine } from "./plain";
import { capital } from "./words";

/** `Job placed` for `JobPlaced` or `bailiff.audit.JobPlaced.v1`. */
export function typeWords(type: string): string {
  const name = type.replace(/^bailiff\.audit\./, "").replace(/\.v\d+$/, "");
  const words = name.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  return capital(words);
}

const LONGEST = 160;
/** What people look for, in this order; times, digests and positions are in the record itself. */
const TOLD = ["outcome", "cause", "stage", "mode", "reason", "because", "text", "task", "tasks", "attempt", "step", "exit_code", "decided", "plan", "idle", "told", "victims", "nodes"];

/** The fields of a record in one line: `outcome preempted, cause preemption, attempt 2`. */
export function summary(data: Record<string, unknown> | null): string {
  const parts = TOLD.flatMap((name) => {
    const value = data?.[name];
    if (typeof value === "string") return value === "" ? [] : [name === "reason" || name === "text" ? value : `${words(name)} ${words(value)}`];
    if (typeof value === "number") return [name === "decided" || name === "plan" ? `${name} #${value}` : `${words(name)} ${value}`];
    if (value === true) return [words(name)];
    return Array.isArray(value) && value.length ? [`${value.length} ${value.length === 1 ? name.replace(/s$/, "") : name}`] : [];
  });
  const text = plainLine(parts.join(", "));
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
}

const words = (name: string): string => name.replaceAll("_", " ");

/** `It needs 8 GPUs.` for `needs 8 GPUs`; `Project a is full.` for `project a is full`. */
export function sentence(text: string): string {
  const plain = plainLine(text).trim();
  const whole = /^(needs|waits|may|has|is|was|would) /.test(plain) ? `It ${plain}` : capital(plain);
  return /[.!?…]$/.test(whole) ? whole : `${whole}.`;
}

const BRIEF = 170;

/** The same in at most a few lines: whole clauses from its beginning. What is left out is in `bailiff explain`. */
export function brief(text: string): string {
  const whole = sentence(text).replace(/, it would need: (?:\w+: )?needs /, "; it needs ");
  if (whole.length <= BRIEF) return whole;
  const clauses = whole.split("; ");
  let kept = clauses.shift()!;
  while (clauses.length && kept.length + clauses[0]!.length + 2 <= BRIEF) kept += `; ${clauses.shift()}`;
  if (kept.length > BRIEF) return `${kept.slice(0, BRIEF).replace(/\s+\S*$/, "")} …`;
  return sentence(kept);
}

const QUIET = new Set(["ClockAdvanced", "ClockStepped", "InputsAdvanced", "ProposalReceived", "StateDigest", "TaskProgressed", "PreemptionRequested"]);

/** Records that the log needs and that hardly anybody asks for. */
export const isQuiet = (type: string): boolean => QUIET.has(type);
