// The title and key facts of a decision.
import type { DecisionData, DecisionResponse, VictimChoice } from "../../api";
import { capital, evictionCauseText, few, gpuTime, refusalText, typeTitle } from "../../lib";

export type Tone = "good" | "warn" | "plain";

interface DecisionSummary {
  title: string;
  tone: Tone;
  /** The preemptor, or the job of the decision. */
  about: string | null;
  victims: VictimChoice[];
  cost: string;
  proven: string;
  isProven: boolean;
}

const TYPE = /^(?:bailiff\.audit\.)?(\w+?)(?:\.v\d+)?$/;
export const typeName = (type: string): string => TYPE.exec(type)?.[1] ?? type;

export function decisionSummary(response: Pick<DecisionResponse, "type" | "decision">): DecisionSummary {
  const data = response.decision ?? {};
  const victims = data.victims ?? [];
  const about = data.preemptor?.job ?? data.job ?? null;
  const base = { about, victims, cost: costOf(data), ...proofText(response.type, data) };
  switch (typeName(response.type)) {
    case "PreemptionDecided":
      return victims.length ? { ...base, title: `${few(jobNames(victims))} preempted by ${about}`, tone: "warn" } : { ...base, title: `${about} needed no preemption: resources were free`, tone: "good" };
    case "PreemptionRefused":
      return { ...base, title: `No preemption for ${about}`, tone: "plain" };
    case "EvictionDecided":
      return { ...base, title: `${about}${data.tasks ? ` (tasks ${data.tasks})` : ""} evicted: ${evictionCauseText(data.cause ?? "")}`, tone: "warn" };
    case "EvictionCancelled":
      return { ...base, title: `Eviction of ${about} cancelled`, tone: "good" };
    case "MigrationDecided":
      return { ...base, title: `${about} migrates`, tone: "warn" };
    case "MigrationRefused":
      return { ...base, title: `${about} does not migrate`, tone: "plain" };
    default:
      return { ...base, title: about ? `${typeTitle(response.type)}: ${about}` : typeTitle(response.type), tone: "plain" };
  }
}

export const jobNames = (victims: VictimChoice[]): string[] => [...new Set(victims.map((victim) => victim.job))];

function costOf(data: DecisionData): string {
  const lost = data.explanation?.cost?.lost_gpu_ms ?? (data.victims ?? []).reduce((sum, victim) => sum + (victim.reserved ? 0 : victim.lost_gpu_ms), 0);
  const stopped = data.explanation?.cost?.jobs_stopped;
  if (!data.victims?.length) return "None: no victims.";
  const jobs = stopped === undefined ? "" : stopped === 0 ? "; no job is stopped" : `; ${stopped === 1 ? "one job is" : `${stopped} jobs are`} stopped`;
  return `${gpuTime(lost)} of work lost and restarts${jobs}.`;
}

function proofText(type: string, data: DecisionData): { proven: string; isProven: boolean } {
  const why = data.explanation ?? {};
  const steps = why.steps ? ` ${why.steps.toLocaleString("en")} search steps.` : "";
  if (typeName(type) === "PreemptionRefused") {
    const proven = data.reason === "impossible";
    return { proven: `${capital(refusalText(data.reason ?? ""))}.${data.reason === "gave-up" ? steps : ""}`, isProven: proven };
  }
  if (!data.victims?.length) return { proven: "Nothing to prove.", isProven: false };
  if (why.proven) return { proven: `Victim selection claims to have proven: no permitted set of victims costs less.${steps}`, isProven: true };
  return { proven: `Not proven: the lowest cost found.${steps}`, isProven: false };
}
