import { MODES } from "../../actions/drainModes";
import type { LiveNode } from "../../api";
import { devicesText, NODE_STATE_TEXTS } from "../../shared/nodes";

/** What the node has, whether it takes jobs, and how it is drained. */
export function NodeText({ node }: { node: LiveNode }) {
  const drain = MODES.find(({ mode }) => mode === node.drain);
  return (
    <>
      {devicesText(node)}
      {node.gpu_models.map((model) => `, ${model}`)}. The node {NODE_STATE_TEXTS[node.state] ?? `is ${node.state}`}.{drain && ` ${drain.name} drain: ${drain.means}`}
    </>
  );
}

/** The labels of the node, by name. */
export function NodeLabels({ node }: { node: LiveNode }) {
  const labels = Object.entries(node.labels).sort(([a], [b]) => (a < b ? -1 : 1));
  return labels.length > 0 && <dl class="facts">{labels.flatMap(([name, value]) => [<dt key={`${name} `}>{name}</dt>, <dd key={name}>{value}</dd>])}</dl>;
}
