import { useLayoutEffect, useRef } from "preact/hooks";

import { themeVersion } from "../../lib";
import { paintCell, type CellFace } from "./map/paintCell";
import { paintMark, paintTile } from "./map/paintMap";
import { paletteOf } from "./map/palette";

const SIZE = 16;

/** A GPU cell, or a node's outline, as drawn on the map. */
export function LegendSwatch({ face, node, letter }: { face?: CellFace; node?: string; letter?: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = themeVersion.value;
  useLayoutEffect(() => {
    const element = canvas.current!;
    const ratio = devicePixelRatio || 1;
    element.width = element.height = Math.round(SIZE * ratio);
    const ctx = element.getContext("2d")!;
    const palette = paletteOf(element);
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (node !== undefined) {
      paintTile(ctx, { tileWidth: SIZE, tileHeight: SIZE }, node, 0, 0, palette);
      paintMark(ctx, { tileWidth: SIZE, tileHeight: SIZE }, node, 0, 0, palette);
    }
    if (face) paintCell(ctx, { x: 0, y: 0, width: SIZE, height: SIZE }, face, palette);
    if (letter && face?.group && face.group.pattern === 0) {
      ctx.font = `600 11px ${palette.font}`;
      ctx.textAlign = "center";
      ctx.textBaseline = "middle";
      ctx.fillStyle = palette.inks[face.group.colour]!;
      ctx.fillText(letter, SIZE / 2, SIZE / 2 + 0.5);
    }
  }, [theme, face?.cell.join(), face?.group?.key, face?.group?.colour, face?.level, face?.idle, node, letter]);
  return <canvas class="swatch" ref={canvas} aria-hidden="true" />;
}
