// Figures as people read them.

const STEPS: [number, string][] = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

/** `42 s`, `3 min`, `2 h 5 min`, `4 d 3 h`. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const at = STEPS.findIndex(([size]) => whole >= size);
  if (at < 0) return "0 s";
  const [size, unit] = STEPS[at]!;
  const first = `${Math.floor(whole / size)} ${unit}`;
  const next = STEPS[at + 1];
  const rest = next && unit !== "min" ? Math.floor((whole % size) / next[0]) : 0;
  return rest ? `${first} ${rest} ${next![1]}` : first;
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

export const count = (many: number, one: string, more = `${one}s`): string => `${many.toLocaleString("en")} ${many === 1 ? one : more}`;

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** How often: `once`, `twice`, `3 times`. */
export const times = (many: number): string => (many === 1 ? "once" : many === 2 ? "twice" : `${many.toLocaleString("en")} times`);

/** `2026-01-01 00:01:05 UTC`. */
export const moment = (text: string): string => text.replace("T", " ").replace(/(\.\d+)?Z$/, " UTC");
