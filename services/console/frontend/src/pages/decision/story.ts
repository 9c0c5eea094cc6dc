// What a decision is about, in a heading and four answers.
import { becauseOf, few, gpuTime, refusalSays } from "../../lib/terms";
import { typeWords } from "../../lib/records";
import { capital } from "../../lib/words";
import type { Data, DecisionTold, Victim } from "./shapes";

export type Tone = "good" | "warn" | "plain";

export interface Story {
  title: string;
  tone: Tone;
  /** Who asked, or whom it is about. */
  about: string | null;
  victims: Victim[];
  cost: string;
  proven: string;
  isProven: boolean;
}

const TYPE = /^(?:bailiff\.audit\.)?(\w+?)(?:\.v\d+)?$/;
export const typeName = (type: string): string => TYPE.exec(type)?.[1] ?? type;

export function storyOf(told: Pick<DecisionTold, "type" | "decision">): Story {
  const data = told.decision ?? {};
  const victims = data.victims ?? [];
  const about = data.asker?.job ?? data.job ?? null;
  const base = { about, victims, cost: costOf(data), ...provenOf(told.type, data) };
  switch (typeName(told.type)) {
    case "PreemptionDecided":
      return victims.length ? { ...base, title: `${few(jobsOf(victims))} had to leave for ${about}`, tone: "warn" } : { ...base, title: `Nobody had to leave for ${about}: room appeared`, tone: "good" };
    case "PreemptionRefused":
      return { ...base, title: `Nobody was made to leave for ${about}`, tone: "plain" };
    case "EvictionDecided":
      return { ...base, title: `${about}${data.tasks ? ` (tasks ${data.tasks})` : ""} had to stop: ${becauseOf(data.cause ?? "")}`, tone: "warn" };
    case "EvictionWithdrawn":
      return { ...base, title: `${about} may stay: its eviction was taken back`, tone: "good" };
    case "MigrationDecided":
      return { ...base, title: `${about} has to move`, tone: "warn" };
    case "MigrationRefused":
      return { ...base, title: `${about} stays where it is`, tone: "plain" };
    default:
      return { ...base, title: about ? `${typeWords(told.type)}: ${about}` : typeWords(told.type), tone: "plain" };
  }
}

export const jobsOf = (victims: Victim[]): string[] => [...new Set(victims.map((victim) => victim.job))];

function costOf(data: Data): string {
  const lost = data.explanation?.cost?.lost_gpu_ms ?? (data.victims ?? []).reduce((sum, victim) => sum + (victim.reserved ? 0 : victim.lost_gpu_ms), 0);
  const stopped = data.explanation?.cost?.jobs_stopped;
  if (!data.victims?.length) return "Nothing: nobody leaves.";
  const jobs = stopped === undefined ? "" : stopped === 0 ? ", and no job is stopped" : `, and ${stopped === 1 ? "one job is" : `${stopped} jobs are`} stopped`;
  return `${gpuTime(lost)} of work lost${jobs}.`;
}

function provenOf(type: string, data: Data): { proven: string; isProven: boolean } {
  const why = data.explanation ?? {};
  const steps = why.steps ? ` ${why.steps.toLocaleString("en")} steps of search.` : "";
  if (typeName(type) === "PreemptionRefused") {
    const proven = data.reason === "impossible";
    return { proven: `${capital(refusalSays(data.reason ?? ""))}.${data.reason === "gave-up" ? steps : ""}`, isProven: proven };
  }
  if (!data.victims?.length) return { proven: "There was nothing to prove.", isProven: false };
  if (why.proven) return { proven: `Proven: no permitted set of jobs is cheaper.${steps}`, isProven: true };
  return { proven: `Not proven: it is the cheapest that was found.${steps}`, isProven: false };
}
