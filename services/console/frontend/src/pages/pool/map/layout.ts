// The position of each node and GPU on the map, in CSS pixels from its top left corner.

/** cell: side of a GPU; gap: between two; label: height of the line above with the node's name, 0: none; pad: around a node. */
interface Density {
  cell: number;
  gap: number;
  label: number;
  pad: number;
}

export const DENSITIES: readonly Density[] = [
  { cell: 8, gap: 1, label: 0, pad: 3 },
  { cell: 12, gap: 2, label: 0, pad: 4 },
  { cell: 18, gap: 2, label: 17, pad: 6 },
  { cell: 26, gap: 3, label: 19, pad: 7 },
  { cell: 40, gap: 3, label: 21, pad: 8 },
  { cell: 60, gap: 4, label: 23, pad: 10 },
];

const PER_LINE = 8;
const BETWEEN = 4;
const GROWTH = 1.4;
const MAX_EXTRA_GAP = 16;

/** Nodes in reading order, `columns` per line; the GPUs of each in lines of `perLine`. */
export interface Layout extends Density {
  nodes: number;
  columns: number;
  perLine: number;
  tileWidth: number;
  tileHeight: number;
  pitchX: number;
  pitchY: number;
  height: number;
}

/** The layout. most: GPUs of the largest node. */
export function layoutOf(nodes: number, most: number, width: number, density: Density): Layout {
  const step = density.cell + density.gap;
  const fits = Math.max(1, Math.floor((width - 2 * density.pad + density.gap) / step));
  const perLine = Math.max(1, Math.min(PER_LINE, most, fits));
  const lines = Math.max(1, Math.ceil(most / perLine));
  const tileOf = (cell: number): number => Math.max(perLine * (cell + density.gap) - density.gap, density.label ? 96 : 0) + 2 * density.pad;
  const columns = Math.max(1, Math.floor((width + BETWEEN) / (tileOf(density.cell) + BETWEEN)));
  // Cells grow a little, so that the columns fill the width.
  const share = Math.floor((width + BETWEEN) / columns) - BETWEEN - 2 * density.pad + density.gap;
  const cell = Math.max(density.cell, Math.min(Math.floor(share / perLine) - density.gap, Math.floor(density.cell * GROWTH)));
  const tileWidth = tileOf(cell);
  const tileHeight = density.label + lines * (cell + density.gap) - density.gap + 2 * density.pad;
  const extraGap = columns > 1 ? Math.floor((width - columns * (tileWidth + BETWEEN) + BETWEEN) / (columns - 1)) : 0;
  const pitchX = tileWidth + BETWEEN + Math.min(MAX_EXTRA_GAP, extraGap);
  const pitchY = tileHeight + BETWEEN;
  const height = Math.max(0, Math.ceil(nodes / columns) * pitchY - BETWEEN);
  return { ...density, cell, nodes, columns, perLine, tileWidth, tileHeight, pitchX, pitchY, height };
}

/** The largest density with which the map fits into `maxHeight` pixels; the smallest if none fits. */
export function fitting(nodes: number, most: number, width: number, maxHeight: number): number {
  for (let at = DENSITIES.length - 1; at > 0; at -= 1) {
    if (layoutOf(nodes, most, width, DENSITIES[at]!).height <= maxHeight) return at;
  }
  return 0;
}

interface Point {
  x: number;
  y: number;
}

export const tileAt = (layout: Layout, node: number): Point => ({
  x: (node % layout.columns) * layout.pitchX,
  y: Math.floor(node / layout.columns) * layout.pitchY,
});

/** Within its node's tile. */
export const cellAt = (layout: Layout, gpu: number): Point => ({
  x: layout.pad + (gpu % layout.perLine) * (layout.cell + layout.gap),
  y: layout.pad + layout.label + Math.floor(gpu / layout.perLine) * (layout.cell + layout.gap),
});

/** The range of nodes visible between two heights: from, up to. */
export function seen(layout: Layout, top: number, bottom: number): [number, number] {
  const first = Math.max(0, Math.floor((top + BETWEEN) / layout.pitchY));
  const last = Math.max(0, Math.ceil(bottom / layout.pitchY));
  return [Math.min(first * layout.columns, layout.nodes), Math.min(last * layout.columns, layout.nodes)];
}

/** A position on the map. gpu null: the node itself. */
export interface Spot {
  node: number;
  gpu: number | null;
}

/** The cell at a point; a gap belongs to the cell left of it or above it. */
export function hit(layout: Layout, gpusOf: (node: number) => number, x: number, y: number): Spot | null {
  const column = Math.min(Math.floor(x / layout.pitchX), layout.columns - 1);
  const line = Math.floor(y / layout.pitchY);
  const node = line * layout.columns + column;
  if (x < 0 || y < 0 || node >= layout.nodes) return null;
  const inX = x - column * layout.pitchX;
  const inY = y - line * layout.pitchY;
  if (inX > layout.tileWidth || inY > layout.tileHeight) return null;
  const step = layout.cell + layout.gap;
  const at = Math.floor((inX - layout.pad) / step);
  const row = Math.floor((inY - layout.pad - layout.label) / step);
  const gpu = row * layout.perLine + at;
  return at < 0 || at >= layout.perLine || row < 0 || gpu >= gpusOf(node) ? { node, gpu: null } : { node, gpu };
}

export interface Focus {
  node: number;
  gpu: number;
}

const PAGE_LINES = 5;

/** The cell that a key moves the focus to; null: not a navigation key. */
export function moveFocus(layout: Layout, gpusOf: (node: number) => number, from: Focus, key: string, ctrl = false): Focus | null {
  const last = layout.nodes - 1;
  const inside = (node: number, gpu: number): Focus => {
    const to = Math.min(Math.max(node, 0), last);
    return { node: to, gpu: Math.min(Math.max(gpu, 0), Math.max(0, gpusOf(to) - 1)) };
  };
  const many = gpusOf(from.node);
  const down = (lines: number): Focus => {
    const to = from.node + lines * layout.columns;
    return to < 0 || to > last ? from : inside(to, from.gpu);
  };
  switch (key) {
    case "ArrowRight":
      return from.gpu + 1 < many ? { ...from, gpu: from.gpu + 1 } : from.node < last ? inside(from.node + 1, 0) : from;
    case "ArrowLeft":
      return from.gpu > 0 ? { ...from, gpu: from.gpu - 1 } : from.node > 0 ? inside(from.node - 1, Infinity) : from;
    case "ArrowDown":
      if (from.gpu + layout.perLine < many) return { ...from, gpu: from.gpu + layout.perLine };
      return from.node + layout.columns > last ? from : inside(from.node + layout.columns, from.gpu % layout.perLine);
    case "ArrowUp": {
      if (from.gpu >= layout.perLine) return { ...from, gpu: from.gpu - layout.perLine };
      const above = from.node - layout.columns;
      if (above < 0) return from;
      const lines = Math.max(1, Math.ceil(gpusOf(above) / layout.perLine));
      return inside(above, (lines - 1) * layout.perLine + from.gpu);
    }
    case "PageDown":
      return down(PAGE_LINES);
    case "PageUp":
      return down(-PAGE_LINES);
    case "Home":
      return ctrl ? inside(0, 0) : { ...from, gpu: 0 };
    case "End":
      return ctrl ? inside(last, Infinity) : inside(from.node, Infinity);
    default:
      return null;
  }
}
