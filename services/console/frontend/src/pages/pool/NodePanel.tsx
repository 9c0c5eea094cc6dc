import { useEffect, useRef } from "preact/hooks";

import { NodeActions } from "../../actions/NodeActions";
import type { LiveJob, LiveNode } from "../../api";
import { NodeAmounts } from "../../shared/NodeAmounts";
import { NodeLabels, NodeText } from "../../shared/NodeText";
import { Card, JobLink, nodePath, SignButton, StateBadge } from "../../ui";
import { runsOf } from "./map/gpuFilter";
import { runSummary } from "./map/gpuText";
import { allocationsOn } from "./nodeAllocations";

const DRAINS: Record<string, string> = {
  graceful: "Jobs may run until they end, or until the deadline.",
  quick: "Jobs are migrated or evicted with their full grace period.",
  fast: "Jobs are evicted with a short grace period.",
};

interface Props {
  pool: string;
  node: LiveNode;
  jobs: ReadonlyMap<string, LiveJob>;
  onClose: () => void;
}

/** Details of a node: jobs, resources, labels and actions. */
export function NodePanel({ pool, node, jobs, onClose }: Props) {
  const top = useRef<HTMLDivElement>(null);
  useEffect(() => top.current?.scrollIntoView({ block: "nearest" }), [node.node]);
  const allocations = allocationsOn(node);
  const rest = runsOf(node).filter(({ cell }) => cell[1] === null && cell[0] !== "shared");
  return (
    <Card
      title={<span class="cut">{node.node}</span>}
      aside={<SignButton quiet sign="✕" label="Close node details" onClick={onClose} />}
    >
      <div class="stack node-panel" ref={top}>
        <p>
          <NodeText node={node} />
          {node.drain !== null && ` Drain: ${node.drain}. ${DRAINS[node.drain] ?? ""}`}
        </p>
        <NodeActions pool={pool} node={node} />
        <p>
          <a href={nodePath(pool, node.node)}>Health, history and measurements</a>
        </p>
        <section>
          <h3>GPUs</h3>
          {allocations.length === 0 && <p class="soft">No jobs.</p>}
          <ul class="node-allocations">
            {allocations.map((allocation) => {
              const job = jobs.get(allocation.job);
              return (
                <li key={`${allocation.job} ${allocation.gpus}`}>
                  <span class="number soft">GPU {allocation.gpus}</span>
                  <span class="cut">
                    <JobLink pool={pool} job={allocation.job} />
                  </span>
                  {job && <StateBadge state={job.state} />}
                  <small class="soft">
                    {job ? `${job.project || "no project"}, ${job.priority_class}` : ""}
                    {allocation.reservedFor !== null && `; reserved for ${allocation.reservedFor}`}
                  </small>
                </li>
              );
            })}
          </ul>
          {rest.length > 0 && <p class="soft">{rest.map(runSummary).join("; ")}.</p>}
        </section>
        <section class="stack node-amounts">
          <NodeAmounts node={node} />
        </section>
        {Object.keys(node.labels).length > 0 && (
          <section>
            <h3>Labels</h3>
            <NodeLabels node={node} />
          </section>
        )}
      </div>
    </Card>
  );
}
