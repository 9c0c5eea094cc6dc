import type { ComponentChildren } from "preact";

/** A term and its description in a description list. */
export function DescriptionItem({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
