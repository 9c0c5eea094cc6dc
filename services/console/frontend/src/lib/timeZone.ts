import { signal } from "@preact/signals";

export type TimeZone = "utc" | "local";
const KEY = "bailiff-times";
const stored = (): TimeZone => (typeof localStorage !== "undefined" && localStorage.getItem(KEY) === "local" ? "local" : "utc");

/** How moments are written on every page. */
export const timeZone = signal<TimeZone>(stored());

export function chooseTimeZone(zone: TimeZone): void {
  localStorage.setItem(KEY, zone);
  timeZone.value = zone;
}

const two = (value: number): string => String(Math.abs(value)).padStart(2, "0");

/** `2026-01-01 02:01:05 +01:00` in the browser's zone. offset: minutes east of UTC. */
export function localMoment(at: Date, offset = -at.getTimezoneOffset()): string {
  const shifted = new Date(at.getTime() + offset * 60_000).toISOString();
  return `${shifted.slice(0, 10)} ${shifted.slice(11, 19)} ${offset < 0 ? "−" : "+"}${two(Math.trunc(offset / 60))}:${two(offset % 60)}`;
}
