import { describe, expect, it } from "vitest";

import { cellAt, DENSITIES, fitting, hit, layoutOf, moveFocus, seen, tileAt } from "./layout";

const eight = (): number => 8;

describe("positions", () => {
  it("use large cells for a small pool and small ones for 10,000 GPUs, within the width", () => {
    expect(fitting(2, 8, 1100, 500)).toBe(DENSITIES.length - 1);
    expect(fitting(8, 8, 1100, 500)).toBe(DENSITIES.length - 1);
    expect(fitting(1250, 8, 1100, 500)).toBe(0);
    for (const [nodes, width] of [[8, 1100], [1250, 1100], [1250, 340], [64, 340]] as const) {
      for (const density of DENSITIES) {
        const layout = layoutOf(nodes, 8, width, density);
        const last = tileAt(layout, layout.columns - 1);
        expect(last.x + layout.tileWidth).toBeLessThanOrEqual(width);
      }
    }
  });

  it("wrap a node's GPUs on narrow screens", () => {
    const layout = layoutOf(1, 8, 340, DENSITIES.at(-1)!);
    expect(layout.perLine).toBeLessThan(8);
    const last = cellAt(layout, 7);
    expect(last.y + layout.cell + layout.pad).toBeLessThanOrEqual(layout.tileHeight);
    expect(last.x + layout.cell).toBeLessThanOrEqual(layout.tileWidth);
  });

  it("hit every GPU where it is drawn, at every density", () => {
    for (const density of DENSITIES) {
      const layout = layoutOf(1250, 8, 1100, density);
      for (const node of [0, 1, layout.columns, 777, 1249]) {
        for (const gpu of [0, 3, 7]) {
          const tile = tileAt(layout, node);
          const cell = cellAt(layout, gpu);
          expect(hit(layout, eight, tile.x + cell.x + layout.cell / 2, tile.y + cell.y + layout.cell / 2)).toEqual({ node, gpu });
        }
      }
    }
  });

  it("hit the node at its label, and nothing after the last node", () => {
    const layout = layoutOf(3, 8, 1100, DENSITIES[3]!);
    expect(hit(layout, eight, 10, 4)).toEqual({ node: 0, gpu: null });
    expect(hit(layout, eight, 5, layout.height + 50)).toBeNull();
    expect(hit(layout, eight, -1, 5)).toBeNull();
    const fourth = cellAt(layout, 4);
    expect(hit(layout, () => 4, fourth.x + 2, fourth.y + 2)).toEqual({ node: 0, gpu: null });
  });

  it("include all visible nodes and no others", () => {
    const layout = layoutOf(1250, 8, 1100, DENSITIES[2]!);
    const [from, to] = seen(layout, 3000, 3500);
    expect(to - from).toBeLessThan(200);
    for (let node = 0; node < 1250; node += 1) {
      const { y } = tileAt(layout, node);
      const visible = y < 3500 && y + layout.tileHeight > 3000;
      if (visible) expect(node >= from && node < to).toBe(true);
    }
    expect(seen(layout, 0, layout.height)).toEqual([0, 1250]);
  });
});

describe("arrow keys", () => {
  const layout = layoutOf(10, 8, 1100, DENSITIES[4]!);
  const step = (node: number, gpu: number, key: string, ctrl = false) => moveFocus(layout, eight, { node, gpu }, key, ctrl);

  it("move along the GPUs and on to the next node", () => {
    expect(step(0, 6, "ArrowRight")).toEqual({ node: 0, gpu: 7 });
    expect(step(0, 7, "ArrowRight")).toEqual({ node: 1, gpu: 0 });
    expect(step(1, 0, "ArrowLeft")).toEqual({ node: 0, gpu: 7 });
    expect(step(0, 0, "ArrowLeft")).toEqual({ node: 0, gpu: 0 });
    expect(step(9, 7, "ArrowRight")).toEqual({ node: 9, gpu: 7 });
  });

  it("move up and down by lines, also within a node", () => {
    expect(step(0, 3, "ArrowDown")).toEqual({ node: layout.columns, gpu: 3 });
    expect(step(layout.columns, 3, "ArrowUp")).toEqual({ node: 0, gpu: 3 });
    const narrow = layoutOf(3, 8, 200, DENSITIES[4]!);
    expect(moveFocus(narrow, eight, { node: 0, gpu: 0 }, "ArrowDown")).toEqual({ node: 0, gpu: narrow.perLine });
    expect(moveFocus(narrow, eight, { node: 0, gpu: 6 }, "ArrowDown")?.node).toBe(1);
    expect(moveFocus(narrow, eight, { node: 1, gpu: 1 }, "ArrowUp")?.node).toBe(0);
    expect(moveFocus(narrow, eight, { node: 1, gpu: 1 }, "ArrowUp")?.gpu).toBeGreaterThanOrEqual(narrow.perLine);
  });

  it("never move to a GPU that does not exist", () => {
    const few = (node: number): number => (node === 1 ? 2 : 8);
    expect(moveFocus(layout, few, { node: 0, gpu: 7 }, "ArrowRight")).toEqual({ node: 1, gpu: 0 });
    expect(moveFocus(layout, few, { node: 2, gpu: 0 }, "ArrowLeft")).toEqual({ node: 1, gpu: 1 });
    expect(step(0, 2, "End", true)).toEqual({ node: 9, gpu: 7 });
    expect(step(9, 2, "Home", true)).toEqual({ node: 0, gpu: 0 });
    expect(step(0, 2, "q")).toBeNull();
  });
});
