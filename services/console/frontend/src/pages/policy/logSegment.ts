import { parseMoment } from "../../lib";

/** Choices of a log segment. */
export type SegmentChoice = "day" | "week" | "month" | "all" | "custom";

export const SEGMENT_CHOICES: [SegmentChoice, string][] = [
  ["day", "last 24 hours"],
  ["week", "last 7 days"],
  ["month", "last 30 days"],
  ["all", "whole log"],
  ["custom", "custom range"],
];

const DAYS: Partial<Record<SegmentChoice, number>> = { day: 1, week: 7, month: 30 };

/** The bounds of a segment; null: the first or the newest record. */
export interface SegmentBounds {
  from: string | null;
  to: string | null;
}

/**
 * The bounds of a segment that ends with the newest record, or custom ones: record numbers (`1200`) or times, e.g.
 * `2026-11-01` or `2026-11-01 12:30`.
 */
export function segmentBounds(segment: SegmentChoice, head: string | null, custom: { from: string; to: string }): SegmentBounds | { fault: string } {
  if (segment === "all") return { from: null, to: null };
  if (segment !== "custom") {
    const until = Date.parse(head ?? "");
    if (Number.isNaN(until)) return { fault: "The pool has no records yet." };
    return { from: rfc3339(until - DAYS[segment]! * 86_400_000), to: null };
  }
  const from = parseBound(custom.from);
  const to = parseBound(custom.to);
  if (from === undefined || to === undefined) return { fault: `${from === undefined ? custom.from : custom.to} is neither a record number nor a time, e.g. 2026-11-01 12:30.` };
  if (from !== null && to !== null && isSeq(from) === isSeq(to) && (isSeq(from) ? Number(from) >= Number(to) : from >= to)) return { fault: "The end is before the start." };
  return { from, to };
}

const isSeq = (text: string): boolean => /^\d+$/.test(text);

/** A bound as typed; null: empty, undefined: invalid. */
function parseBound(typed: string): string | null | undefined {
  const text = typed.trim();
  if (!text) return null;
  if (/^\d{1,15}$/.test(text)) return text;
  const at = parseMoment(text.replace(/Z$/, ""));
  return at === null ? undefined : rfc3339(Date.parse(at));
}

const rfc3339 = (milliseconds: number): string => new Date(milliseconds).toISOString().replace(/\.\d+Z$/, "Z");
