import { useEffect, useRef } from "preact/hooks";

import { NodeActions } from "../../actions/NodeActions";
import { bytes, count } from "../../lib/words";
import type { LiveJob, NodeCells } from "../../live/shapes";
import { StateBadge } from "../../ui/Badge";
import { Bar } from "../../ui/Bar";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { JobLink } from "../../ui/Links";
import { holdsOn } from "./holds";
import { NODE_WORDS, runText } from "./map/sentences";
import { runsOf } from "./map/selecting";

const DRAINS: Record<string, string> = {
  graceful: "What runs there may end by itself until the drain's deadline.",
  quick: "What runs there is moved or stopped with its grace.",
  fast: "What runs there is stopped at once.",
};

interface Props {
  pool: string;
  node: NodeCells;
  jobs: ReadonlyMap<string, LiveJob>;
  onClose: () => void;
}

/** One machine: who is on it, what is left of it, and what may be done with it. */
export function NodePanel({ pool, node, jobs, onClose }: Props) {
  const top = useRef<HTMLDivElement>(null);
  useEffect(() => top.current?.scrollIntoView({ block: "nearest" }), [node.node]);
  const holds = holdsOn(node);
  const labels = Object.entries(node.labels).sort(([a], [b]) => (a < b ? -1 : 1));
  const rest = runsOf(node).filter(({ cell }) => cell[1] === null && cell[0] !== "shared");
  return (
    <Card
      title={<span class="cut">{node.node}</span>}
      aside={
        <Button quiet title="Close" onClick={onClose}>
          ✕<span class="visually-hidden">Close the node</span>
        </Button>
      }
    >
      <div class="node-panel" ref={top}>
        <p>
          {count(node.gpus.length, "GPU")}
          {node.model && <span class="soft">, {node.model}</span>}. The node {NODE_WORDS[node.state] ?? `is ${node.state}`}.
          {node.drain !== null && ` Drain: ${node.drain}. ${DRAINS[node.drain] ?? ""}`}
        </p>
        <NodeActions pool={pool} node={node} />
        <section>
          <h3>On its GPUs</h3>
          {holds.length === 0 && <p class="soft">No job.</p>}
          <ul class="node-holds">
            {holds.map((hold) => {
              const job = jobs.get(hold.job);
              return (
                <li key={`${hold.job} ${hold.gpus}`}>
                  <span class="number soft">GPU {hold.gpus}</span>
                  <span class="cut">
                    <JobLink pool={pool} job={hold.job} />
                  </span>
                  {job && <StateBadge state={job.state} />}
                  <small class="soft">
                    {job ? `${job.project || "no project"}, ${job.class}` : ""}
                    {hold.then !== null && `; then ${hold.then}`}
                  </small>
                </li>
              );
            })}
          </ul>
          {rest.length > 0 && <p class="soft">{rest.map(runText).join("; ")}.</p>}
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
  const words = `${text(used)} of ${text(of)} held`;
  return (
    <div>
      <div class="amount-line">
        <h3>{name}</h3> <span class="soft number">{words}</span>
      </div>
      <Bar used={used} quota={null} of={of} words={`${name}: ${words}`} />
    </div>
  );
}
