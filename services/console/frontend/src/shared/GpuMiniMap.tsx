import type { LiveNode } from "../api";
import { cellText, cellTitle, colourOf, deviceName, jobSigns, signOf } from "./gpuCellStyle";
import { GpuMiniMapCanvas } from "./GpuMiniMapCanvas";
import "./minimap.css";

const MAX_DETAILED_NODES = 96;
const NONE: readonly LiveNode[] = [];

const coloured = (job: string | null) => (job === null ? {} : { "data-colour": colourOf(job), style: { "--own": `var(--cat-${colourOf(job)})` } });

/** A small map of the GPUs of some nodes. beside: those of a map with the same signs for jobs; changed: `node/gpu` of GPUs to mark. Many nodes are drawn on a canvas without letters. */
export function GpuMiniMap({ nodes, beside = NONE, changed, label }: { nodes: LiveNode[]; beside?: readonly LiveNode[]; changed?: ReadonlySet<string>; label: string }) {
  if (nodes.length > MAX_DETAILED_NODES) return <GpuMiniMapCanvas nodes={nodes} label={label} />;
  const signs = jobSigns([...nodes, ...beside]);
  return (
    <ul class="row minimap" aria-label={label}>
      {nodes.map((node) => (
        <li key={node.node}>
          <span class="ellipsis minimap-node" title={node.node}>
            {node.node}
          </span>
          <span class="row minimap-cells" role="img" aria-label={node.devices.map((cell, gpu) => `${deviceName(node, gpu)} ${cellText(cell)}`).join("; ") || "no GPUs"}>
            {node.devices.map((cell, gpu) => (
              <span
                key={gpu}
                class="minimap-cell"
                data-state={cell[0]}
                data-changed={changed?.has(`${node.node}/${gpu}`)}
                {...coloured(cell[1] ?? cell[2])}
                title={`${cellTitle(node, gpu)}: ${cellText(cell)}`}
              >
                {signOf(cell, signs)}
              </span>
            ))}
          </span>
          {node.state !== "ready" && <span class="minimap-state">{node.state}</span>}
        </li>
      ))}
    </ul>
  );
}

/** Legend of the map. */
export function MiniMapLegend({ changes = false }: { changes?: boolean }) {
  return (
    <ul class="row legend">
      <li><span class="minimap-cell" data-state="allocated" {...coloured("")} aria-hidden="true">A</span> allocated (a sign for each job)</li>
      <li><span class="minimap-cell" data-state="releasing" {...coloured("")} aria-hidden="true">A</span> releasing</li>
      <li><span class="minimap-cell" data-state="reserved" {...coloured("")} aria-hidden="true">B</span> reserved</li>
      <li><span class="minimap-cell" data-state="free" aria-hidden="true" /> free</li>
      <li><span class="minimap-cell" data-state="unhealthy" aria-hidden="true">✕</span> unavailable</li>
      {changes && <li><span class="minimap-cell" data-state="free" data-changed="true" aria-hidden="true" /> changed</li>}
    </ul>
  );
}
