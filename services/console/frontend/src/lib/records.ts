// Records of the archive as lines. What a record says in sentences the server tells; here are its type and its fields.
import { plainLine } from "./plain";

/** `Job placed` for `JobPlaced` or `bailiff.audit.JobPlaced.v1`. */
export function typeWords(type: string): string {
  const name = type.replace(/^bailiff\.audit\./, "").replace(/\.v\d+$/, "");
  const words = name.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

const LONGEST = 160;
const BELONGS_ELSEWHERE = new Set(["job", "node", "explanation", "request", "demand"]);

/** Its fields in one line: `attempt 2, outcome preempted, cause preemption`. */
export function summary(data: Record<string, unknown> | null): string {
  const parts = Object.entries(data ?? {}).flatMap(([name, value]) => {
    if (BELONGS_ELSEWHERE.has(name)) return [];
    if (typeof value === "string" || typeof value === "number") return value === "" ? [] : [`${name.replaceAll("_", " ")} ${value}`];
    if (value === true) return [name.replaceAll("_", " ")];
    if (Array.isArray(value) && value.length) return [`${value.length} ${name.replaceAll("_", " ")}`];
    return [];
  });
  const text = plainLine(parts.join(", "));
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
}
