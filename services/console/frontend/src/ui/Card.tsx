import type { ComponentChildren } from "preact";

export function Card({ title, aside, children }: { title?: ComponentChildren; aside?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="card">
      {(title || aside) && (
        <header>
          {title && <h2>{title}</h2>}
          <span class="spring" />
          {aside}
        </header>
      )}
      <div class="body">{children}</div>
    </section>
  );
}
