import type { ComponentChildren } from "preact";

/** One of the `answers` that a person comes for: the question in a word or two, and what there is to say. */
export function Answer({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
