import { useLayoutEffect, useRef } from "preact/hooks";

import { Button } from "../../../ui/Button";

interface Props {
  x: number;
  y: number;
  below: number;
  width: number;
  title: string;
  says: () => string[];
  hint: string | null;
  actions: { job: string | null; onJob: (job: string) => void; onNode: () => void; onClose: () => void } | null;
}

const AWAY = 8;

/** Beside a GPU, above it where there is room; what it says counts by itself. */
export function Tip({ x, y, below, width, title, says, hint, actions }: Props) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const tip = box.current!;
    const left = Math.max(0, Math.min(x - tip.offsetWidth / 2, width - tip.offsetWidth));
    const above = y - tip.offsetHeight - AWAY;
    const frame = tip.parentElement!.getBoundingClientRect().top;
    tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(frame + above < 0 ? below + AWAY : above)}px)`;
  });
  return (
    <div class="map-tip" ref={box} data-touch={actions ? "" : undefined} aria-hidden={actions ? undefined : "true"}>
      <strong>{title}</strong>
      {says().map((text) => (
        <p key={text}>{text}</p>
      ))}
      {hint && <p class="soft">{hint}</p>}
      {actions && (
        <div class="map-tip-actions">
          {actions.job && <Button onClick={() => actions.onJob(actions.job!)}>Open the job</Button>}
          <Button onClick={actions.onNode}>The node</Button>
          <Button quiet onClick={actions.onClose}>
            Close
          </Button>
        </div>
      )}
    </div>
  );
}
