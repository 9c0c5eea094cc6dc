import { useMemo } from "preact/hooks";

import { Card } from "../../ui/Card";
import { MapLegend, MiniMap } from "../../ui/MiniMap";
import { changes, concerned } from "./changes";
import type { DecisionTold } from "./shapes";

const MOST_NODES = 24;

/** The nodes concerned just before the record and just after it. */
export function BeforeAfter({ told }: { told: DecisionTold }) {
  const changed = useMemo(() => changes(told.before, told.after), [told]);
  const marked = useMemo(() => new Set(changed.map((each) => `${each.node}/${each.gpu}`)), [changed]);
  const after = concerned(told.after, changed, MOST_NODES);
  if (!after.length) return null;
  const before = after.flatMap((node) => told.before?.nodes?.[node.node] ?? []);
  const all = Object.keys(told.after?.nodes ?? {}).length;
  return (
    <Card title="The nodes concerned, before and after">
      <div class="before-after">
        <figure>
          <figcaption>Before #{told.seq}</figcaption>
          <MiniMap nodes={before} changed={marked} label={`Before record ${told.seq}`} />
        </figure>
        <figure>
          <figcaption>After it</figcaption>
          <MiniMap nodes={after} changed={marked} label={`After record ${told.seq}`} />
        </figure>
      </div>
      <MapLegend changes />
      {changed.length === 0 && <p class="soft note">This record by itself changes nothing on these GPUs: who has to leave is told afterwards.</p>}
      {changed.length > 0 && (
        <details class="gap">
          <summary>{changed.length === 1 ? "One GPU changed" : `${changed.length} GPUs changed`}</summary>
          <ul class="sentences">
            {changed.slice(0, 200).map((each) => (
              <li key={`${each.node}/${each.gpu}`}>
                {each.node}, GPU {each.gpu}: {each.before} → {each.after}
              </li>
            ))}
          </ul>
        </details>
      )}
      {all > after.length && <p class="soft note">{after.length} of {all} nodes are shown.</p>}
    </Card>
  );
}
