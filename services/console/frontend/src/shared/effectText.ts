import type { VictimView } from "../api";
import { few } from "../lib";

/** Whether the job gets resources, and loses nothing. */
export const gains = (effect: string): boolean => effect === "starts" || effect === "grows";

/** `migrates to node-2`, `evicted`. */
export const effectText = (row: Pick<VictimView, "effect" | "to">): string =>
  row.to.length ? `${row.effect} ${gains(row.effect) ? "on" : "to"} ${few([...new Set(row.to)])}` : row.effect;

const AFTERWARDS: Partial<Record<VictimView["effect"], string>> = {
  evicted: "requeued at its previous position",
  ends: "ends, as it was submitted with on_eviction: end",
  shrinks: "continues with its other tasks",
  "restarts with fewer tasks": "restarts with its other tasks",
  "loses its reservation": "pending again",
};

/** What becomes of a victim of a preemption. */
export const victimOutcome = (victim: Pick<VictimView, "effect" | "to">): string => AFTERWARDS[victim.effect] ?? effectText(victim);
