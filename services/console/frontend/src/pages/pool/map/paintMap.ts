// Redraws the visible part of the map; fast enough for every change (10,000 GPUs in a few milliseconds).
import type { Cell, LiveNode } from "../../../api";
import type { Group } from "../../../shared/colourGroups";
import { jobOfTask, type CellPredicate } from "./gpuFilter";
import { cellAt, seen, tileAt, type Focus, type Layout } from "./layout";
import { paintCell, type Box, type CellFace } from "./paintCell";
import type { Palette } from "./palette";

/** What is drawn. highlighted: a job or a group; level: drawn instead of groups. */
export interface View {
  nodes: readonly LiveNode[];
  layout: Layout;
  groupOf: (job: string | null) => Group | null;
  wanted: CellPredicate | null;
  level: ((node: LiveNode, gpu: number) => number | null) | null;
  highlighted: { job: string } | { group: string } | null;
  focus: Focus | null;
  palette: Palette;
}

const LETTERS_FROM = 18;
const NAMES_FROM = 26;
const CORNERS_FROM = 44;
const FADED = 0.22;
const BETWEEN_CELLS = "rgb(0 0 0 / 35%)";

/** Draws the map from the scroll position `top`. */
export function paintMap(ctx: CanvasRenderingContext2D, view: View, top: number, width: number, height: number): void {
  ctx.clearRect(0, 0, width, height);
  ctx.textBaseline = "middle";
  const [from, to] = seen(view.layout, top, top + height);
  for (let at = from; at < to; at += 1) {
    const { x, y } = tileAt(view.layout, at);
    paintNode(ctx, view, at, x, y - top);
  }
}

function paintNode(ctx: CanvasRenderingContext2D, view: View, at: number, x: number, y: number): void {
  const { layout, palette } = view;
  const node = view.nodes[at]!;
  paintTile(ctx, layout, node.state, x, y, palette);
  if (layout.label) paintLabel(ctx, layout, node, x, y, palette);
  for (let gpu = 0; gpu < node.devices.length; ) {
    const end = layout.cell >= NAMES_FROM && !view.level ? runEnd(node.devices, gpu, layout.perLine) : gpu;
    paintRun(ctx, view, node, gpu, end, x, y);
    gpu = end + 1;
  }
  if (!layout.label) paintMark(ctx, layout, node.state, x, y, palette);
  if (view.focus?.node === at && node.devices.length) {
    const cell = cellAt(layout, view.focus.gpu);
    ctx.strokeStyle = palette.surface;
    ctx.lineWidth = 5;
    ctx.strokeRect(x + cell.x - 1.5, y + cell.y - 1.5, layout.cell + 3, layout.cell + 3);
    ctx.strokeStyle = palette.focus;
    ctx.lineWidth = 2.5;
    ctx.strokeRect(x + cell.x - 1.5, y + cell.y - 1.5, layout.cell + 3, layout.cell + 3);
  }
}

/** The end of a run of equal GPUs in one line. */
export function runEnd(gpus: readonly Cell[], from: number, perLine: number): number {
  const first = gpus[from]!;
  let end = from;
  while (end + 1 < gpus.length && (end + 1) % perLine !== 0 && sameCell(first, gpus[end + 1]!)) end += 1;
  return end;
}

const sameCell = (a: Cell, b: Cell): boolean => a[0] === b[0] && a[1] === b[1] && a[2] === b[2] && a[0] !== "free" && a[0] !== "shared";

function paintRun(ctx: CanvasRenderingContext2D, view: View, node: LiveNode, from: number, to: number, x: number, y: number): void {
  const { layout, palette } = view;
  const cell = node.devices[from]!;
  const first = cellAt(layout, from);
  const step = layout.cell + layout.gap;
  const box: Box = { x: x + first.x, y: y + first.y, width: (to - from) * step + layout.cell, height: layout.cell };
  const face: CellFace = { cell, group: view.groupOf(cell[1] ?? (cell[3][0] ? jobOfTask(cell[3][0]) : null)), reserved: view.groupOf(cell[2]), idle: node.state !== "ready" };
  if (view.level) face.level = cell[0] === "unhealthy" || cell[0] === "quarantined" ? null : view.level(node, from);
  const group = cell[0] === "reserved" ? face.reserved : face.group;
  const faded = (view.wanted !== null && !view.wanted(node, cell)) || (view.highlighted !== null && "group" in view.highlighted && group?.key !== view.highlighted.group);
  if (faded) ctx.globalAlpha = FADED;
  paintCell(ctx, box, face, palette);
  for (let gpu = from; gpu < to; gpu += 1) {
    ctx.fillStyle = BETWEEN_CELLS;
    const at = x + cellAt(layout, gpu).x + layout.cell + (layout.gap - 1) / 2;
    for (const [from, to] of separatorParts(box.height, layout.cell)) ctx.fillRect(at, box.y + from, 1, to - from);
  }
  if (layout.cell >= LETTERS_FROM) paintText(ctx, view, face, box, node.state);
  ctx.globalAlpha = 1;
  if (view.highlighted !== null && "job" in view.highlighted && (cell[1] === view.highlighted.job || cell[2] === view.highlighted.job)) {
    ctx.strokeStyle = palette.ink;
    ctx.lineWidth = 2;
    ctx.strokeRect(box.x - 1, box.y - 1, box.width + 2, box.height + 2);
  }
}

/** The parts of the line between two GPUs of one job: it leaves out the middle, where the name is written. */
export function separatorParts(height: number, cell: number): [number, number][] {
  if (cell < LETTERS_FROM) return [[0, height]];
  const tick = Math.max(2, Math.floor(height * 0.2));
  return [[0, tick], [height - tick, height]];
}

/** What is written on a GPU of a job: its name if it fits, else the letter of its project or class. */
export const label = (letter: string, job: string | null, named: boolean): string => (named && job ? job : letter);

/** The job's name if it fits, else the letter. */
function paintText(ctx: CanvasRenderingContext2D, { layout, palette }: View, face: CellFace, box: Box, nodeState: string): void {
  const [state, holder, reserved] = face.cell;
  if (face.level !== undefined) {
    if (face.level !== null && layout.cell >= NAMES_FROM) boxed(ctx, String(Math.round(face.level * 100)), box, palette, layout.cell);
    return;
  }
  const size = Math.min(14, Math.round(layout.cell * 0.52));
  ctx.font = `600 ${size}px ${palette.font}`;
  const named = layout.cell >= NAMES_FROM && box.width >= 46;
  if (state === "allocated" && face.group) {
    ctx.fillStyle = palette.inks[face.group.colour]!;
    const text = label(face.group.letter, holder, named);
    if (face.group.pattern > 0) boxed(ctx, text, box, palette, layout.cell);
    else centred(ctx, text, box);
    if (named && layout.cell >= CORNERS_FROM) corner(ctx, face.group.letter, box, palette.font);
  } else if (state === "releasing") {
    boxed(ctx, named ? `${holder ?? ""} releasing${reserved ? ` for ${reserved}` : ""}` : (face.group?.letter ?? "?"), box, palette, layout.cell);
  } else if (state === "reserved") {
    ctx.fillStyle = palette.ink;
    centred(ctx, named ? `for ${reserved ?? "a job"}` : (face.reserved?.letter ?? "?"), box);
  } else if (state === "shared" && face.group) {
    boxed(ctx, face.group.letter, box, palette, layout.cell);
  } else if (state === "free" && layout.cell >= 40 && nodeState === "ready") {
    ctx.font = `${size - 2}px ${palette.font}`;
    ctx.fillStyle = palette.inkSoft;
    centred(ctx, "free", box);
  }
}

/** The letter of the group in the corner of a cell that shows the job's name. */
function corner(ctx: CanvasRenderingContext2D, letter: string, box: Box, font: string): void {
  ctx.font = `600 10px ${font}`;
  ctx.textAlign = "left";
  ctx.fillText(letter, box.x + 4, box.y + 8);
}

function centred(ctx: CanvasRenderingContext2D, text: string, box: Box): void {
  const shown = cut(ctx, text, box.width - 6);
  ctx.textAlign = "center";
  ctx.fillText(shown, box.x + box.width / 2, box.y + box.height / 2 + 0.5);
}

/** Text on an opaque background, for cells with stripes or patterns. */
function boxed(ctx: CanvasRenderingContext2D, text: string, box: Box, palette: Palette, cell: number): void {
  const size = Math.min(13, Math.round(cell * 0.5));
  ctx.font = `600 ${size}px ${palette.font}`;
  const shown = cut(ctx, text, box.width - 8);
  const width = ctx.measureText(shown).width + 4;
  ctx.fillStyle = palette.free;
  ctx.fillRect(box.x + (box.width - width) / 2, box.y + box.height / 2 - size * 0.62, width, size * 1.24);
  ctx.fillStyle = palette.ink;
  ctx.textAlign = "center";
  ctx.fillText(shown, box.x + box.width / 2, box.y + box.height / 2 + 0.5);
}

const widths = new Map<string, string>();

/** Truncates text to a width, with an ellipsis. */
function cut(ctx: CanvasRenderingContext2D, text: string, width: number): string {
  const key = `${ctx.font}|${Math.round(width)}|${text}`;
  const known = widths.get(key);
  if (known !== undefined) return known;
  let shown = text.slice(0, 80);
  if (ctx.measureText(shown).width > width) {
    while (shown.length > 1 && ctx.measureText(`${shown}…`).width > width) shown = shown.slice(0, -1);
    shown += "…";
  }
  if (widths.size > 5_000) widths.clear();
  widths.set(key, shown);
  return shown;
}

const OUTLINES: Record<string, { dash: number[]; width: number }> = {
  draining: { dash: [5, 3], width: 1.5 },
  drained: { dash: [], width: 1.5 },
  unreachable: { dash: [1.5, 2.5], width: 1.5 },
  lost: { dash: [], width: 2 },
};

/** The background of a node; the outline shows whether it is schedulable. */
export function paintTile(ctx: CanvasRenderingContext2D, layout: Pick<Layout, "tileWidth" | "tileHeight">, state: string, x: number, y: number, palette: Palette): void {
  const outline = OUTLINES[state];
  ctx.fillStyle = outline ? palette.ground : palette.surface;
  ctx.fillRect(x, y, layout.tileWidth, layout.tileHeight);
  if (!outline) return;
  ctx.strokeStyle = state === "lost" ? palette.bad : state === "drained" ? palette.inkSoft : palette.warn;
  ctx.lineWidth = outline.width;
  ctx.setLineDash(outline.dash);
  ctx.strokeRect(x + 1, y + 1, layout.tileWidth - 2, layout.tileHeight - 2);
  ctx.setLineDash([]);
}

/** Marks a node without label: lost nodes are crossed out, drained ones struck through. */
export function paintMark(ctx: CanvasRenderingContext2D, layout: Pick<Layout, "tileWidth" | "tileHeight">, state: string, x: number, y: number, palette: Palette): void {
  if (state !== "drained" && state !== "lost") return;
  const [right, bottom, middle] = [x + layout.tileWidth - 2, y + layout.tileHeight - 2, y + layout.tileHeight / 2];
  ctx.beginPath();
  ctx.moveTo(x + 2, state === "lost" ? y + 2 : middle);
  ctx.lineTo(right, state === "lost" ? bottom : middle);
  if (state === "lost") {
    ctx.moveTo(right, y + 2);
    ctx.lineTo(x + 2, bottom);
  }
  ctx.strokeStyle = state === "lost" ? palette.bad : palette.inkSoft;
  ctx.lineWidth = 1.5;
  ctx.stroke();
}

function paintLabel(ctx: CanvasRenderingContext2D, layout: Layout, node: LiveNode, x: number, y: number, palette: Palette): void {
  const size = Math.min(13, layout.label - 6);
  const middle = y + layout.pad + layout.label / 2 - 2;
  const available = layout.tileWidth - 2 * layout.pad;
  let used = 0;
  if (node.state !== "ready") {
    ctx.font = `600 ${size - 1}px ${palette.font}`;
    ctx.textAlign = "right";
    ctx.fillStyle = node.state === "lost" ? palette.bad : palette.warn;
    ctx.fillText(node.state, x + layout.tileWidth - layout.pad, middle);
    used = ctx.measureText(node.state).width + 6;
  }
  ctx.font = `${size}px ${palette.font}`;
  ctx.textAlign = "left";
  ctx.fillStyle = palette.inkSoft;
  ctx.fillText(cut(ctx, node.node, Math.max(20, available - used)), x + layout.pad, middle);
}
