import { signal } from "@preact/signals";

type TimeZone = "utc" | "local";
const KEY = "bailiff-times";
const stored = (): TimeZone => (typeof localStorage !== "undefined" && localStorage.getItem(KEY) === "local" ? "local" : "utc");

/** How moments are written and read on every page. */
export const timeZone = signal<TimeZone>(stored());

export function chooseTimeZone(zone: TimeZone): void {
  localStorage.setItem(KEY, zone);
  timeZone.value = zone;
}

const two = (value: number): string => String(Math.abs(value)).padStart(2, "0");

/** Minutes east of UTC, in the chosen zone. */
export const zoneOffset = (at: Date): number => (timeZone.value === "utc" ? 0 : -at.getTimezoneOffset());

/** The offset as text: `+01:00`. */
export const offsetText = (offset: number): string => `${offset < 0 ? "−" : "+"}${two(Math.trunc(offset / 60))}:${two(offset % 60)}`;

/** `2026-01-01T02:01:05` on a clock that is so many minutes east of UTC. */
export const clockText = (at: number, offset: number): string => new Date(at + offset * 60_000).toISOString().slice(0, 19);

/** `2026-01-01 02:01:05 +01:00` in the browser's zone. offset: minutes east of UTC. */
export const localMoment = (at: Date, offset = -at.getTimezoneOffset()): string => `${clockText(at.getTime(), offset).replace("T", " ")} ${offsetText(offset)}`;

/** The chosen zone in a label: `UTC`, `local`. */
export const zoneName = (): string => (timeZone.value === "utc" ? "UTC" : "local");

const TYPED = /^(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d))?)?$/;

/** A time as typed in the chosen zone, `2026-01-01` or `2026-01-01 02:01`, as ISO in UTC; null: it is none. */
export function parseMoment(text: string): string | null {
  const found = TYPED.exec(text.trim());
  if (!found) return null;
  const [year, month, day, hour, minute, second] = found.slice(1).map((part) => Number(part ?? 0)) as [number, number, number, number, number, number];
  const written = new Date(Date.UTC(year, month - 1, day, hour, minute, second));
  if (Number.isNaN(written.getTime()) || written.getUTCDate() !== day || written.getUTCMonth() !== month - 1 || hour > 23 || minute > 59 || second > 59) return null;
  return (timeZone.value === "utc" ? written : new Date(year, month - 1, day, hour, minute, second)).toISOString();
}

/** A moment as it is typed: `2026-01-01 02:01`; empty for an empty text. */
export function typedMoment(iso: string): string {
  const at = Date.parse(iso);
  return Number.isNaN(at) ? "" : clockText(at, zoneOffset(new Date(at))).replace("T", " ").replace(/(:\d\d):00$/, "$1");
}
