import type { ComponentChildren } from "preact";

export type Tone = "plain" | "good" | "warn" | "bad" | "accent";

export function Badge({ tone = "plain", title, children }: { tone?: Tone; title?: string; children: ComponentChildren }) {
  return (
    <span class="badge" data-tone={tone} title={title}>
      {children}
    </span>
  );
}

const STATES: Record<string, [Tone, string]> = {
  running: ["good", "▶"],
  starting: ["accent", "▷"],
  reserved: ["accent", "◌"],
  pending: ["plain", "…"],
  evicting: ["warn", "⇤"],
  paused: ["plain", "‖"],
  pausing: ["warn", "‖"],
  cancelling: ["warn", "✕"],
  suspended: ["bad", "!"],
  succeeded: ["good", "✓"],
  failed: ["bad", "✕"],
  cancelled: ["plain", "✕"],
};

/** A job's state as text, symbol and colour. */
export function StateBadge({ state }: { state: string }) {
  const [tone, sign] = STATES[state] ?? ["plain", ""];
  return (
    <Badge tone={tone}>
      <span aria-hidden="true">{sign}</span> {state}
    </Badge>
  );
}
