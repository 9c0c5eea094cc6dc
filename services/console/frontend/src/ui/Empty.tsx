import type { ComponentChildren } from "preact";

/** Nothing to show, and why, and what to do. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state" data-kind="empty">
      <strong>{title}</strong>
      {children && <div>{children}</div>}
    </div>
  );
}
