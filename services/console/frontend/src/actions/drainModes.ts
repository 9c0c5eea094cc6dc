import type { LiveNode } from "../api";

export type Mode = "graceful" | "quick" | "fast";

export const MODES: { mode: Mode; name: string; means: string }[] = [
  { mode: "graceful", name: "Graceful", means: "Jobs migrate where resources are free; the others may run until they end, or until the deadline." },
  { mode: "quick", name: "Quick", means: "Jobs are evicted now, each with its full grace period." },
  { mode: "fast", name: "Fast", means: "Jobs are evicted now, with the policy's short grace period." },
];

const UNITS = ["s", "m", "h", "d"];

/** The duration typed, e.g. `30m`; empty for none; null if it is not a duration. A bare number is minutes. */
export function deadline(text: string): string | null {
  const match = /^(\d{1,6})\s*([a-z]*)$/.exec(text.trim().toLowerCase());
  if (text.trim() === "") return "";
  if (!match || Number(match[1]) === 0) return null;
  const unit = match[2] === "" || match[2] === "min" ? "m" : match[2]!;
  return UNITS.includes(unit) ? `${Number(match[1])}${unit}` : null;
}

/** Why undrain is disabled; null: it is enabled. */
export const undrainDisabledReason = (node: Pick<LiveNode, "drain">): string | null => (node.drain === null ? "the node is not drained" : null);
