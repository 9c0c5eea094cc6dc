import { useEffect, useRef } from "preact/hooks";

import { NodeActions } from "../../actions/NodeActions";
import { bytes } from "../../lib/format";
import type { LiveJob, NodeCells } from "../../live/types";
import { StateBadge } from "../../ui/Badge";
import { Bar } from "../../ui/Bar";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { JobLink, nodePath } from "../../ui/Links";
import { allocationsOn } from "./nodeAllocations";
import { devicesText, NODE_STATE_TEXTS, runSummary } from "./map/gpuText";
import { runsOf } from "./map/gpuFilter";

const DRAINS: Record<string, string> = {
  graceful: "Jobs may run until they end, or until the deadline.",
  quick: "Jobs are migrated or evicted with their full grace period.",
  fast: "Jobs are evicted with a short grace period.",
};

interface Props {
  pool: string;
  node: NodeCells;
  jobs: ReadonlyMap<string, LiveJob>;
  onClose: () => void;
}

/** Details of a node: jobs, resources, labels and actions. */
export function NodePanel({ pool, node, jobs, onClose }: Props) {
  const top = useRef<HTMLDivElement>(null);
  useEffect(() => top.current?.scrollIntoView({ block: "nearest" }), [node.node]);
  const allocations = allocationsOn(node);
  const labels = Object.entries(node.labels).sort(([a], [b]) => (a < b ? -1 : 1));
  const rest = runsOf(node).filter(({ cell }) => cell[1] === null && cell[0] !== "shared");
  return (
    <Card
      title={<span class="cut">{node.node}</span>}
      aside={
        <Button quiet title="Close" onClick={onClose}>
          ✕<span class="visually-hidden">Close node details</span>
        </Button>
      }
    >
      <div class="node-panel" ref={top}>
        <p>
          {devicesText(node)}
          {node.model && <span class="soft">, {node.model}</span>}. The node {NODE_STATE_TEXTS[node.state] ?? `is ${node.state}`}.
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
        <section class="node-amounts">
          <Amount name="CPU" used={(node.cpu_milli - node.cpu_milli_free) / 1000} of={node.cpu_milli / 1000} text={(value) => `${Math.round(value * 10) / 10}`} />
          <Amount name="Memory" used={node.memory_bytes - node.memory_bytes_free} of={node.memory_bytes} text={bytes} />
        </section>
        {labels.length > 0 && (
          <section>
            <h3>Labels</h3>
            <dl class="facts labels">
              {labels.flatMap(([name, value]) => [<dt key={`${name} `}>{name}</dt>, <dd key={name}>{value}</dd>])}
            </dl>
          </section>
        )}
      </div>
    </Card>
  );
}

function Amount({ name, used, of, text }: { name: string; used: number; of: number; text: (value: number) => string }) {
  const words = `${text(used)} of ${text(of)} allocated`;
  return (
    <div>
      <div class="amount-line">
        <h3>{name}</h3> <span class="soft number">{words}</span>
      </div>
      <Bar used={used} quota={null} of={of} words={`${name}: ${words}`} />
    </div>
  );
}
