import type { Comparison, GroupFigures, RunFigures } from "../../api";
import { duration } from "../../lib";

export type Label = RunFigures["label"];
export const LABELS: Label[] = ["recorded", "simulated", "other"];
export const HEADS: Record<Label, string> = { recorded: "Recorded", simulated: "Simulated", other: "Other policy" };

export type Figures = Record<Label, number | null>;

/** A figure of the three runs. better: the better direction. */
export interface Measure {
  name: string;
  better: "less" | "more";
  figures: Figures;
  show: (value: number) => string;
  /** Formats a difference, if differently. */
  showBy?: (value: number) => string;
}

/** Hours as a signed duration: `−2h05m`. */
export function hours(value: number): string {
  const seconds = Math.abs(value) * 3600;
  const sign = value < 0 && seconds >= 0.001 ? "−" : "";
  return sign + duration(seconds < 1 ? seconds : Math.round(seconds));
}
export const whole = (value: number): string => Math.round(value).toLocaleString("en");
export const gpuHours = (value: number): string => (Math.abs(value) >= 100 ? whole(value) : value.toFixed(1));
const points = (value: number): string => `${(100 * value).toFixed(1)} points`;
const percent = (value: number): string => `${(100 * value).toFixed(1)} %`;
const ratio = (value: number): string => value.toFixed(3);

export function totals(result: Comparison): Measure[] {
  const of = (take: (run: RunFigures) => number | null): Figures => {
    const found = (label: Label) => {
      const run = result.runs.find((each) => each.label === label);
      return run ? take(run) : null;
    };
    return { recorded: found("recorded"), simulated: found("simulated"), other: found("other") };
  };
  return [
    { name: "Mean wait time", better: "less", figures: of((run) => run.waiting.all?.mean ?? 0), show: hours },
    { name: "p95 wait time", better: "less", figures: of((run) => run.waiting.all?.p95 ?? 0), show: hours },
    { name: "Evicted attempts", better: "less", figures: of((run) => run.evictions), show: whole },
    { name: "GPU-hours lost", better: "less", figures: of((run) => run.gpu_hours.lost), show: gpuHours },
    { name: "GPU-hours done", better: "more", figures: of((run) => run.gpu_hours.work), show: gpuHours },
    { name: "Utilisation", better: "more", figures: of((run) => run.utilisation), show: percent, showBy: points },
    { name: "Fairness (Jain's index, 1 is equal)", better: "more", figures: of((run) => run.fairness.jain), show: ratio },
    { name: "Jobs completed", better: "more", figures: of((run) => run.ended), show: whole },
  ];
}

export type Verdict = "better" | "worse" | "within" | "same";

/** The difference between the other policy and the simulation of the one in force; within: not larger than the simulation error. */
export function verdict({ figures, better, show }: Measure): { by: number; verdict: Verdict } | null {
  const { recorded, simulated, other } = figures;
  if (simulated === null || other === null) return null;
  const by = other - simulated;
  if (show(other) === show(simulated)) return { by, verdict: "same" };
  if (recorded !== null && Math.abs(by) <= Math.abs(simulated - recorded)) return { by, verdict: "within" };
  return { by, verdict: by < 0 === (better === "less") ? "better" : "worse" };
}

export const VERDICTS: Record<Verdict, { sign: string; text: string; tone: "good" | "bad" | "plain" }> = {
  better: { sign: "▲", text: "better", tone: "good" },
  worse: { sign: "▼", text: "worse", tone: "bad" },
  within: { sign: "≈", text: "within error", tone: "plain" },
  same: { sign: "=", text: "equal", tone: "plain" },
};

export type GroupField = Exclude<keyof GroupFigures, "jobs">;

export const GROUP_FIELDS: { field: GroupField; name: string; better: "less" | "more"; show: (value: number) => string }[] = [
  { field: "waited_mean", name: "Mean wait time", better: "less", show: hours },
  { field: "waited_p95", name: "p95 wait time", better: "less", show: hours },
  { field: "evictions", name: "Evictions", better: "less", show: whole },
  { field: "gpu_hours_lost", name: "GPU-hours lost", better: "less", show: gpuHours },
  { field: "gpu_hours_done", name: "GPU-hours done", better: "more", show: gpuHours },
];

export interface GroupRow {
  kind: "class" | "project";
  name: string;
  jobs: number;
  measure: Measure;
}

/** One figure by class, then by project. */
export function groupRows(result: Comparison, field: GroupField): GroupRow[] {
  const { name: measured, better, show } = GROUP_FIELDS.find((each) => each.field === field)!;
  return Object.entries(result.groups).map(([key, runs]) => {
    const [kind, ...rest] = key.split(" ");
    const figures: Figures = { recorded: runs.recorded[field], simulated: runs.simulated[field], other: runs.other[field] };
    return { kind: kind === "project" ? "project" : "class", name: rest.join(" "), jobs: runs.simulated.jobs, measure: { name: measured, better, figures, show } };
  });
}

/** The share of its entitlement that each project received. */
export function shares(result: Comparison): GroupRow[] {
  const of = (label: Label) => result.runs.find((run) => run.label === label)?.fairness.share_of_entitlement ?? {};
  const all = { recorded: of("recorded"), simulated: of("simulated"), other: of("other") };
  return Object.keys(all.simulated).map((name) => ({
    kind: "project",
    name,
    jobs: result.groups[`project ${name}`]?.simulated.jobs ?? 0,
    measure: { name: "share", better: "more", figures: { recorded: all.recorded[name] ?? null, simulated: all.simulated[name] ?? null, other: all.other[name] ?? null }, show: percent, showBy: points },
  }));
}

/** The result in one sentence. */
export function summary(result: Comparison): string {
  const compared = totals(result)
    .map((measure) => ({ name: measure.name.toLowerCase().replace("gpu", "GPU").replace("jain", "Jain"), found: verdict(measure) }))
    .filter(({ found }) => found !== null);
  const named = (which: Verdict) => compared.filter(({ found }) => found!.verdict === which).map(({ name }) => name);
  const [better, worse] = [named("better"), named("worse")];
  if (!better.length && !worse.length) return "The other policy makes no difference larger than the simulation error.";
  return [better.length ? `Better: ${better.join("; ")}.` : "Nothing better.", worse.length ? `Worse: ${worse.join("; ")}.` : "Nothing worse."].join(" ");
}
