import type { NodeCells } from "../live/shapes";
import { cellWords, colourOf, signOf } from "./cellLook";
import { MiniCanvas } from "./MiniCanvas";
import "./minimap.css";
import "./sections.css";

const MOST_DRAWN_APART = 96;

/** The GPUs of some nodes, small. changed: `node/gpu` of those to be marked. Of many nodes the cells are drawn without signs. */
export function MiniMap({ nodes, changed, label }: { nodes: NodeCells[]; changed?: ReadonlySet<string>; label: string }) {
  if (nodes.length > MOST_DRAWN_APART) return <MiniCanvas nodes={nodes} label={label} />;
  return (
    <ul class="minimap" aria-label={label}>
      {nodes.map((node) => (
        <li key={node.node}>
          <span class="minimap-node" title={node.node}>
            {node.node}
          </span>
          <span class="minimap-cells" role="img" aria-label={node.gpus.map((cell, gpu) => `GPU ${gpu} ${cellWords(cell)}`).join("; ") || "no GPUs"}>
            {node.gpus.map((cell, gpu) => (
              <span
                key={gpu}
                class="minimap-cell"
                data-state={cell[0]}
                data-changed={changed?.has(`${node.node}/${gpu}`)}
                data-colour={cell[1] !== null ? colourOf(cell[1]) : cell[2] !== null ? colourOf(cell[2]) : undefined}
                title={`${node.node}, GPU ${gpu}: ${cellWords(cell)}`}
              >
                {signOf(cell)}
              </span>
            ))}
          </span>
          {node.state !== "ready" && <span class="minimap-state">{node.state}</span>}
        </li>
      ))}
    </ul>
  );
}

/** What the signs of a map mean. */
export function MapLegend({ changes = false }: { changes?: boolean }) {
  return (
    <ul class="legend">
      <li><span class="minimap-cell" data-state="held" data-colour="0" aria-hidden="true">A</span> held by a job (its first letter)</li>
      <li><span class="minimap-cell" data-state="leaving" data-colour="0" aria-hidden="true">A</span> leaves</li>
      <li><span class="minimap-cell" data-state="reserved" data-colour="0" aria-hidden="true">B</span> promised</li>
      <li><span class="minimap-cell" data-state="free" aria-hidden="true" /> free</li>
      <li><span class="minimap-cell" data-state="unhealthy" aria-hidden="true">✕</span> out of use</li>
      {changes && <li><span class="minimap-cell" data-state="free" data-changed="true" aria-hidden="true" /> changed</li>}
    </ul>
  );
}
