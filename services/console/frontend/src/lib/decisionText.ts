// Texts for actions, rules, eviction causes and refusals. core-texts.json holds those of the core; a test keeps both equal.
import core from "./core-texts.json";
import { lookUp } from "./evictionTexts";

/** What a rule says of a job that it protects, as the end of a sentence. */
export const ruleText = (rule: string): string => lookUp(core.rules, rule) ?? "is protected by it";

/** Tooltip of a rule's name beside a pending reason. */
export const ruleTitle = (rule: string): string => `Rule ${rule}: a possible victim ${ruleText(rule)}.`;

export const DECISION_TYPES: readonly string[] = core.decisions;

/** Whether records of this type are decisions; others are facts. */
export const isDecision = (type: string): boolean => core.decisions.includes(type);

/** Why a job was evicted, as the rest of "because …". */
export const evictionCauseText = (cause: string): string => lookUp(core.evictions, cause) ?? lookUp(OTHER_CAUSE_TEXTS, cause) ?? cause;
/** What happened to a job whose tasks stopped for this cause: `preempted`, `cancelled`, …; else `evicted`. */
export const stopWord = (cause: string | null): string => lookUp(core.stops, cause ?? "") ?? "evicted";
/** The causes of what is called an eviction: not of what somebody asked for by another name. */
export const EVICTION_CAUSES: readonly string[] = ["preemption", ...Object.keys(core.evictions).filter((cause) => lookUp(core.stops, cause) === undefined)];
export const refusalText = (reason: string): string => lookUp(core.refusals, reason) ?? reason;

const OTHER_CAUSE_TEXTS: Record<string, string> = {
  preemption: "another job needed its resources",
  migration: "a migration was requested",
  resize: "its gang is resized and restarts",
};

export const ACTION_TEXTS: Record<string, string> = {
  preempt: "a job of higher priority takes resources of jobs of lower priority",
  reclaim: "a project takes back resources of its fair share",
  consolidate: "jobs migrate so that free resources become contiguous",
  allocate: "free resources were available",
};
