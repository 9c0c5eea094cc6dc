import type { ComponentChildren } from "preact";

interface Props {
  name: string;
  value: number | string;
  /** Beside the value, smaller. */
  rest?: ComponentChildren;
  tone?: "warn" | "bad" | undefined;
  href?: string;
  title?: string;
}

/** A key figure, in a list of class `figures`. */
export function KeyFigure({ name, value, rest, tone, href, title }: Props) {
  const text = typeof value === "number" ? value.toLocaleString("en") : value;
  return (
    <div class="figure" data-tone={tone} title={title}>
      <dt>{name}</dt>
      <dd class="number">
        {href ? <a href={href}>{text}</a> : text} {rest && <small>{rest}</small>}
      </dd>
    </div>
  );
}
