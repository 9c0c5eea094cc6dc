// Draws one GPU, or a run of equal GPUs, on a canvas. Every state has a pattern beside its colour.
import type { Cell } from "../../../api";
import type { Group } from "../../../shared/colourGroups";
import type { Palette } from "./palette";

/** How a GPU is drawn. idle: free, but its node is not schedulable. group: of its job; reserved: of the job that it is reserved for; level: 0 to 1, drawn instead of the group; undefined: none. */
export interface CellFace {
  cell: Cell;
  group: Group | null;
  reserved: Group | null;
  idle?: boolean;
  level?: number | null;
}

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export function paintCell(ctx: CanvasRenderingContext2D, box: Box, face: CellFace, palette: Palette): void {
  const state = face.cell[0];
  const colour = face.group ? palette.groups[face.group.colour]! : palette.inkSoft;
  const leveled = face.level !== undefined;
  fill(ctx, box, state === "unhealthy" || state === "quarantined" ? palette.unusable : face.idle && state === "free" ? palette.line : palette.free);
  if (leveled) paintLevel(ctx, box, face.level ?? null, palette);
  else if (state === "allocated") fill(ctx, box, colour);
  else if (state === "shared") fill(ctx, { ...box, y: box.y + box.height / 2, height: box.height / 2 }, colour);
  if (state === "releasing") stripe(ctx, box, leveled ? palette.warn : colour, leveled ? null : palette.free);
  if (!leveled && face.group && (state === "allocated" || state === "shared")) overlay(ctx, box, face.group, palette);
  if (state === "free") frame(ctx, box, palette.line);
  else if (state === "shared" || leveled) frame(ctx, box, palette.lineStrong);
  else if (state === "releasing") frame(ctx, box, palette.ink);
  if (state === "reserved") frame(ctx, box, palette.ink, dashOf(box));
  if (state === "unhealthy") cross(ctx, box, palette.bad);
  if (state === "quarantined") slash(ctx, box, palette.ink);
  if (state !== "reserved" && face.cell[2] !== null) corner(ctx, box, face.reserved, palette);
}

function fill(ctx: CanvasRenderingContext2D, { x, y, width, height }: Box, colour: string): void {
  ctx.fillStyle = colour;
  ctx.fillRect(x, y, width, height);
}

function frame(ctx: CanvasRenderingContext2D, { x, y, width, height }: Box, colour: string, dash: number[] = []): void {
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1;
  ctx.setLineDash(dash);
  ctx.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
  ctx.setLineDash([]);
}

const dashOf = (box: Box): number[] => (box.height < 12 ? [2, 1] : [3, 2]);

/** A bar filled from below; a dot if unknown. */
function paintLevel(ctx: CanvasRenderingContext2D, box: Box, level: number | null, palette: Palette): void {
  if (level === null) {
    const size = Math.max(2, box.height / 6);
    fill(ctx, { x: box.x + (box.width - size) / 2, y: box.y + (box.height - size) / 2, width: size, height: size }, palette.lineStrong);
    return;
  }
  const height = Math.round(box.height * level);
  fill(ctx, { x: box.x, y: box.y + box.height - height, width: box.width, height }, palette.accent);
}

function lines(ctx: CanvasRenderingContext2D, box: Box, colour: string, width: number, each: (path: CanvasRenderingContext2D) => void): void {
  ctx.save();
  ctx.beginPath();
  ctx.rect(box.x, box.y, box.width, box.height);
  ctx.clip();
  ctx.beginPath();
  each(ctx);
  ctx.strokeStyle = colour;
  ctx.lineWidth = width;
  ctx.stroke();
  ctx.restore();
}

/** Diagonal stripes: the GPU is being released. */
function stripe(ctx: CanvasRenderingContext2D, box: Box, colour: string, under: string | null): void {
  if (under !== null) fill(ctx, box, under);
  const step = box.height < 12 ? 4 : box.height < 30 ? 6 : 8;
  lines(ctx, box, colour, step / 2, (path) => {
    for (let at = -box.height; at < box.width; at += step) {
      path.moveTo(box.x + at, box.y + box.height);
      path.lineTo(box.x + at + box.height, box.y);
    }
  });
}

/** The pattern that distinguishes groups of the same colour: dots, vertical or horizontal lines. */
function overlay(ctx: CanvasRenderingContext2D, box: Box, group: Group, palette: Palette): void {
  if (group.pattern === 0) return;
  const ink = palette.inks[group.colour]!;
  const step = box.height < 14 ? box.height : 6;
  const first = step / 2;
  if (group.pattern === 1) {
    ctx.fillStyle = ink;
    const dot = box.height < 14 ? 2 : 1.5;
    for (let x = box.x + first; x < box.x + box.width; x += step) {
      for (let y = box.y + first; y < box.y + box.height; y += step) ctx.fillRect(x - dot / 2, y - dot / 2, dot, dot);
    }
    return;
  }
  lines(ctx, box, ink, 1, (path) => {
    for (let at = first; at < (group.pattern === 2 ? box.width : box.height); at += step) {
      if (group.pattern === 2) path.moveTo(box.x + at, box.y), path.lineTo(box.x + at, box.y + box.height);
      else path.moveTo(box.x, box.y + at), path.lineTo(box.x + box.width, box.y + at);
    }
  });
}

function cross(ctx: CanvasRenderingContext2D, box: Box, colour: string): void {
  const inset = box.height / 5;
  const middle = box.x + box.width / 2;
  const half = box.height / 2 - inset;
  lines(ctx, box, colour, Math.max(1.5, box.height / 9), (path) => {
    path.moveTo(middle - half, box.y + inset);
    path.lineTo(middle + half, box.y + box.height - inset);
    path.moveTo(middle + half, box.y + inset);
    path.lineTo(middle - half, box.y + box.height - inset);
  });
  frame(ctx, box, colour);
}

function slash(ctx: CanvasRenderingContext2D, box: Box, colour: string): void {
  const inset = box.height / 5;
  lines(ctx, box, colour, Math.max(1.5, box.height / 9), (path) => {
    path.moveTo(box.x + inset, box.y + box.height / 2);
    path.lineTo(box.x + box.width - inset, box.y + box.height / 2);
  });
  frame(ctx, box, colour);
}

/** The upper right corner in the colour of the job that the GPU is reserved for. */
function corner(ctx: CanvasRenderingContext2D, box: Box, reserved: Group | null, palette: Palette): void {
  const size = Math.max(4, Math.min(14, box.height * 0.45));
  const right = box.x + box.width;
  ctx.beginPath();
  ctx.moveTo(right - size, box.y);
  ctx.lineTo(right, box.y);
  ctx.lineTo(right, box.y + size);
  ctx.closePath();
  ctx.fillStyle = reserved ? palette.groups[reserved.colour]! : palette.ink;
  ctx.fill();
  ctx.strokeStyle = palette.ink;
  ctx.lineWidth = 1;
  ctx.stroke();
}
