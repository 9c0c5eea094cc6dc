import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import type { LiveNode } from "../api";
import { cssValues, themeVersion, useElementWidth } from "../lib";
import { cellText, colourOf, deviceName } from "./gpuCellStyle";

const CELL = 8;
const GAP = 6;

/** The GPUs of a large pool on a canvas: one row of cells per node, in columns. Shows the GPU under the pointer as text below. */
export function GpuMiniMapCanvas({ nodes, label }: { nodes: LiveNode[]; label: string }) {
  const box = useRef<HTMLDivElement>(null);
  const width = useElementWidth(box);
  const canvas = useRef<HTMLCanvasElement>(null);
  const hovered = useSignal("");
  const widest = Math.max(1, ...nodes.map((node) => node.devices.length)) * CELL + GAP;
  const columns = Math.max(1, Math.floor((width.value + GAP) / widest));
  const rows = Math.ceil(nodes.length / columns);
  const theme = themeVersion.value;

  useEffect(() => {
    const at = canvas.current;
    if (!at || !width.value) return;
    const scale = devicePixelRatio || 1;
    at.width = width.value * scale;
    at.height = rows * (CELL + 2) * scale;
    const colour = cssValues(at);
    const categories = Array.from({ length: 10 }, (_, number) => colour(`--cat-${number}`));
    const [line, unusable, surface] = [colour("--line-strong"), colour("--cell-unusable"), colour("--surface")];
    const draw = at.getContext("2d")!;
    draw.scale(scale, scale);
    nodes.forEach((node, number) => {
      const [left, top] = [(number % columns) * widest, Math.floor(number / columns) * (CELL + 2)];
      node.devices.forEach(([state, job, reserved], gpu) => {
        const x = left + gpu * CELL;
        const own = job ?? reserved;
        draw.fillStyle = state === "unhealthy" || state === "quarantined" ? unusable : own && state !== "reserved" ? categories[colourOf(own)]! : surface;
        draw.fillRect(x, top, CELL - 1, CELL);
        draw.strokeStyle = state === "reserved" && own ? categories[colourOf(own)]! : line;
        draw.strokeRect(x + 0.5, top + 0.5, CELL - 2, CELL - 1);
        if (state === "releasing" || state === "unhealthy" || state === "quarantined") {
          draw.strokeStyle = state === "releasing" ? surface : line;
          draw.beginPath();
          draw.moveTo(x + 1, top + CELL - 1);
          draw.lineTo(x + CELL - 2, top + 1);
          draw.stroke();
        }
      });
    });
  }, [nodes, width.value, theme]);

  const move = (event: MouseEvent): void => {
    const number = Math.floor(event.offsetY / (CELL + 2)) * columns + Math.floor(event.offsetX / widest);
    const node = nodes[number];
    const gpu = Math.floor((event.offsetX % widest) / CELL);
    const cell = node?.devices[gpu];
    hovered.value = node ? `${node.node}${cell ? `, ${deviceName(node, gpu)}: ${cellText(cell)}` : ""}` : "";
  };
  return (
    <div ref={box}>
      <canvas ref={canvas} class="minicanvas" style={{ "--height": `${rows * (CELL + 2)}px` }} role="img" aria-label={label} onMouseMove={move} onMouseLeave={() => (hovered.value = "")} />
      <p class="soft note">{hovered.value || "Hover over a GPU to see its job."}</p>
    </div>
  );
}
