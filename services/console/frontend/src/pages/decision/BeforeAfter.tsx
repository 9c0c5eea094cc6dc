import { useMemo } from "preact/hooks";

import type { DecisionResponse } from "../../api";
import { affectedNodes, gpuChanges } from "../../shared/gpuChanges";
import { GpuMiniMap, MiniMapLegend } from "../../shared/GpuMiniMap";
import { Card } from "../../ui";

const MOST_NODES = 24;

/** The affected nodes just before and just after the record. */
export function BeforeAfter({ response }: { response: DecisionResponse }) {
  const changed = useMemo(() => gpuChanges(response.before, response.after), [response]);
  const marked = useMemo(() => new Set(changed.map((each) => `${each.node}/${each.gpu}`)), [changed]);
  const after = affectedNodes(response.after, changed, MOST_NODES);
  if (!after.length) return null;
  const before = after.flatMap((node) => response.before?.nodes?.[node.node] ?? []);
  const all = Object.keys(response.after?.nodes ?? {}).length;
  return (
    <Card title="Affected nodes, before and after">
      <div class="before-after">
        <figure>
          <figcaption>Before #{response.seq}</figcaption>
          <GpuMiniMap nodes={before} beside={after} changed={marked} label={`Before record ${response.seq}`} />
        </figure>
        <figure>
          <figcaption>After #{response.seq}</figcaption>
          <GpuMiniMap nodes={after} beside={before} changed={marked} label={`After record ${response.seq}`} />
        </figure>
      </div>
      <MiniMapLegend changes />
      {changed.length === 0 && <p class="soft note">This record does not change these GPUs: the eviction notices follow.</p>}
      {changed.length > 0 && (
        <details class="gap">
          <summary>{changed.length === 1 ? "One GPU changed" : `${changed.length} GPUs changed`}</summary>
          <ul class="stack sentences">
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
