import type { NodeCells } from "../live/shapes";

export type Mode = "graceful" | "quick" | "fast";

export const MODES: { mode: Mode; name: string; means: string }[] = [
  { mode: "graceful", name: "Graceful", means: "Jobs move where there is room; others may finish, until the deadline if there is one." },
  { mode: "quick", name: "Quick", means: "Jobs leave now, each with its whole grace." },
  { mode: "fast", name: "Fast", means: "Jobs leave now, with the policy's short grace." },
];

const UNITS = ["s", "m", "h", "d"];

/** `30m` from what was typed; empty where nothing was; null where it is not a time. A bare number is minutes. */
export function deadline(text: string): string | null {
  const match = /^(\d{1,6})\s*([a-z]*)$/.exec(text.trim().toLowerCase());
  if (text.trim() === "") return "";
  if (!match || Number(match[1]) === 0) return null;
  const unit = match[2] === "" || match[2] === "min" ? "m" : match[2]!;
  return UNITS.includes(unit) ? `${Number(match[1])}${unit}` : null;
}

/** Why it cannot be taken back; null: it can. */
export const undrainHindrance = (node: Pick<NodeCells, "drain">): string | null => (node.drain === null ? "it is not drained" : null);
