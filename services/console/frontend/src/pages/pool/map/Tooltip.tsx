import { useLayoutEffect, useRef } from "preact/hooks";

import { Button } from "../../../ui";

interface Props {
  x: number;
  y: number;
  below: number;
  width: number;
  title: string;
  sentences: () => string[];
  hint: string | null;
  actions: { job: string | null; onJob: (job: string) => void; onNode: () => void; onClose: () => void } | null;
}

const DISTANCE = 8;

/** Above the GPU while that is within the map's frame, else below it, so that it never covers what is above the map. */
export const topOf = (above: number, below: number): number => (above < 0 ? below + DISTANCE : above);

/** The tooltip of a GPU, placed above it if it fits into the map. */
export function Tooltip({ x, y, below, width, title, sentences, hint, actions }: Props) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const tip = box.current!;
    const left = Math.max(0, Math.min(x - tip.offsetWidth / 2, width - tip.offsetWidth));
    const above = y - tip.offsetHeight - DISTANCE;
    tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(topOf(above, below))}px)`;
  });
  return (
    <div class="tip map-tooltip" ref={box} data-touch={actions ? "" : undefined} aria-hidden={actions ? undefined : "true"}>
      <strong>{title}</strong>
      {sentences().map((text) => (
        <p key={text}>{text}</p>
      ))}
      {hint && <p class="soft">{hint}</p>}
      {actions && (
        <div class="row map-tooltip-actions">
          {actions.job && <Button onClick={() => actions.onJob(actions.job!)}>Open job</Button>}
          <Button onClick={actions.onNode}>Open node</Button>
          <Button quiet onClick={actions.onClose}>
            Close
          </Button>
        </div>
      )}
    </div>
  );
}
