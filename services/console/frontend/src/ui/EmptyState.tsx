import type { ComponentChildren } from "preact";

/** Shown instead of empty content: why it is empty and what to do. */
export function EmptyState({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="stack state" data-kind="empty">
      <strong>{title}</strong>
      {children && <div>{children}</div>}
    </div>
  );
}
