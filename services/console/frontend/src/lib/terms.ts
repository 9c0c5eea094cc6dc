// The words of decisions. Those of rules, causes and refusals are the core's (a test holds them together).
import core from "./core-words.json";

const lookUp = (table: Record<string, string>, name: string): string | undefined => (Object.hasOwn(table, name) ? table[name] : undefined);

/** The end of a sentence about a job that the rule shields. */
export const ruleSays = (rule: string): string => lookUp(core.rules, rule) ?? "is shielded by it";

/** What a rule's name means beside the reason why a job waits. */
export const ruleTitle = (rule: string): string => `Rule ${rule}: a job that could make room ${ruleSays(rule)}.`;

/** Whether records of this type decide something; others are facts. */
export const isDecision = (type: string): boolean => core.decisions.includes(type);

/** Why a job had to stop, as the rest of "because …". */
export const becauseOf = (cause: string): string => lookUp(core.evictions, cause) ?? lookUp(OTHER_CAUSES, cause) ?? cause;
export const refusalSays = (reason: string): string => lookUp(core.refusals, reason) ?? reason;

const OTHER_CAUSES: Record<string, string> = {
  preemption: "another job needed the room",
  migration: "somebody asked for it to move",
  resize: "its gang has another size and starts again with that",
};

export const VERBS: Record<string, string> = {
  preempt: "a job of higher priority takes the room",
  reclaim: "a project takes back what it is due",
  consolidate: "jobs move so that room comes together in one piece",
  allocate: "there was room",
};

/** GPU-time in the unit that people would choose: `3.1 GPU-min`. */
export function gpuTime(gpuMs: number): string {
  for (const [size, unit] of [[3_600_000, "GPU-h"], [60_000, "GPU-min"]] as const) {
    if (gpuMs >= size) return `${(Math.round((gpuMs * 10) / size) / 10).toFixed(1)} ${unit}`;
  }
  return `${Math.round(gpuMs / 1000)} GPU-s`;
}

/** `1 GPU`, `2.5 GPUs`, of thousandths. */
export const gpuCount = (milli: number): string => (milli === 1000 ? "1 GPU" : `${milli / 1000} GPUs`);

/** What a job asks for: `4 GPUs`, `0.5 GPUs`, `2 × 4GiB` of parts. */
export const gpusText = ({ gpus_text: text }: { gpus_text: string }): string => (/^[\d.]+$/.test(text) ? `${text} ${text === "1" ? "GPU" : "GPUs"}` : text);

/** `a`, `a and b`, `a, b and 3 more`. */
export function few(names: readonly string[], most = 3, all = names.length): string {
  if (all > most) return `${names.slice(0, most - 1).join(", ")} and ${all - Math.min(most - 1, names.length)} more`;
  return names.length < 2 ? (names[0] ?? "") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

/** The numbers of `0-3,7`; nothing for what is no such text. */
export function numbers(text: string): number[] {
  const found: number[] = [];
  for (const part of text.split(",")) {
    const [, low, high] = /^(\d+)(?:-(\d+))?$/.exec(part) ?? [];
    if (low === undefined) continue;
    for (let at = Number(low); at <= Number(high ?? low) && found.length < 100_000; at += 1) found.push(at);
  }
  return found;
}
