// Formats durations, sizes, counts, GPU amounts and lists for display.
import { gpuTime } from "./amounts";
import { localMoment, timeZone } from "./timeZone";

/** The CLI's format: `400ms`, `45s`, `3m20s`, `2h05m`, `4d03h`; `0s`. */
export function duration(seconds: number): string {
  const positive = Math.max(0, seconds);
  if (positive > 0 && positive < 1) return `${Math.floor(positive * 1000)}ms`;
  const whole = Math.floor(positive);
  const parts = (large: number, unit: string, small: number, rest: string): string => `${large}${unit}${small ? `${String(small).padStart(2, "0")}${rest}` : ""}`;
  if (whole < 60) return `${whole}s`;
  if (whole < 3_600) return parts(Math.floor(whole / 60), "m", whole % 60, "s");
  const minutes = Math.floor(whole / 60);
  if (minutes < 1_440) return parts(Math.floor(minutes / 60), "h", minutes % 60, "m");
  const hours = Math.floor(minutes / 60);
  return parts(Math.floor(hours / 24), "d", hours % 24, "h");
}

export function bytes(size: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  let left = size;
  while (left >= 1024 && at < units.length - 1) {
    left /= 1024;
    at += 1;
  }
  return `${left >= 100 || at === 0 ? Math.round(left) : Math.round(left * 10) / 10} ${units[at]}`;
}

/** Thousandths of a GPU: `4`, `2.5`. */
export const gpus = (milli: number): string => String(Math.round(milli) / 1000);

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** How often: `once`, `2 times`. */
export const times = (many: number): string => (many === 1 ? "once" : `${many.toLocaleString("en")} times`);

/** `2026-01-01 00:01:05 UTC`, or in the browser's time zone where that is chosen. */
export function moment(text: string): string {
  const at = new Date(text);
  if (timeZone.value === "local" && !Number.isNaN(at.getTime())) return localMoment(at);
  return text.replace("T", " ").replace(/(\.\d+)?Z$/, " UTC");
}

/** The same of a time in ms. */
export const momentAt = (at: number): string => moment(new Date(at).toISOString());

/** The same without its seconds where they are zero. */
export const momentOfChart = (at: number): string => momentAt(at).replace(/(\d\d:\d\d):00 /, "$1 ");

/** A project's name as shown: the scheduler's implicit children (`research*`, and `*` at the top) stand for jobs directly in it. */
export function projectName(name: string): string {
  if (name === "" || name === "*") return "no project";
  return name.endsWith("*") ? `${name.slice(0, -1)}, directly` : name;
}

/** GPU time to the millisecond, for amounts that are equal when rounded: `240.220 GPU-s`. */
export const exactGpuTime = (gpuMs: number): string => `${(gpuMs / 1000).toFixed(3)} GPU-s`;

/** `1 GPU`, `2.5 GPUs`, of thousandths. */
export const gpuCount = (milli: number): string => (milli === 1000 ? "1 GPU" : `${milli / 1000} GPUs`);

/** The GPU request of a job: `4 GPUs`, `0.5 GPUs`, `2 × 4GiB` for shared GPUs. */
export const gpusText = ({ gpus_text: text }: { gpus_text: string }): string => (/^[\d.]+$/.test(text) ? `${text} ${text === "1" ? "GPU" : "GPUs"}` : text);

/** The GPUs that a job has, `4 of 8 GPUs`: those of its placed tasks, where it runs with some of them. */
export const allocatedText = (job: { gpus_text: string; placed_gpus_text: string; placed_tasks: number; tasks: number }): string =>
  job.placed_tasks > 0 && job.placed_tasks < job.tasks && job.gpus_text !== "0" ? `${job.placed_gpus_text} of ${gpusText(job)}` : gpusText(job);

/** `a`, `a and b`, `a, b and 3 more`. */
export function few(names: readonly string[], most = 3, all = names.length): string {
  if (all > most) return `${names.slice(0, most - 1).join(", ")} and ${all - Math.min(most - 1, names.length)} more`;
  return names.length < 2 ? (names[0] ?? "") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

/** The numbers of `0-3,7`; empty for any other text. */
export function numbers(text: string): number[] {
  const found: number[] = [];
  for (const part of text.split(",")) {
    const [, low, high] = /^(\d+)(?:-(\d+))?$/.exec(part) ?? [];
    if (low === undefined) continue;
    for (let at = Number(low); at <= Number(high ?? low) && found.length < 100_000; at += 1) found.push(at);
  }
  return found;
}

/** The runs of adjacent numbers, each as its first and its last; ascending. */
export function adjacent(numbers: readonly number[]): [number, number][] {
  const found: [number, number][] = [];
  for (const number of numbers.toSorted((one, other) => one - other)) {
    const last = found.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else found.push([number, number]);
  }
  return found;
}

/** A text of at most so many characters; of a longer one the beginning. */
export const shortened = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** GPU-hours of lost work in a readable unit. */
export const lostText = (gpuHours: number): string => (gpuHours > 0 ? gpuTime(gpuHours * 3_600_000) : "none");
