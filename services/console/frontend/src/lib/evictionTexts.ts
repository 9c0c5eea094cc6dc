// Words for the stages of an eviction and for how an attempt ended. eviction-texts.json holds those of the core; a test keeps both equal.
import texts from "./eviction-texts.json";

export const lookUp = (table: Record<string, string>, name: string): string | undefined => (Object.hasOwn(table, name) ? table[name] : undefined);

const OTHER_STAGES = { released: "GPUs released" };

/** `checkpoint saved` */
export const stageText = (stage: string): string => lookUp(texts.stages, stage) ?? lookUp(OTHER_STAGES, stage) ?? stage.replaceAll("_", " ");

/** What an attempt did at its end, `stopped in time`; of `shrunk, preempted` each part. */
export const endText = (outcome: string): string => outcome.split(", ").map((part) => lookUp(texts.ends, part) ?? part.replaceAll("-", " ")).join(", ");
