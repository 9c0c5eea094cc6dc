import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

import type { LiveJob, LiveNode, NodeTelemetryRow } from "../../../api";
import { count, now, themeVersion } from "../../../lib";
import { cellTitle } from "../../../shared/gpuCellStyle";
import { devicesText, NODE_STATE_TEXTS } from "../../../shared/nodes";
import type { Group } from "../../../shared/colourGroups";
import { jobAt, type CellPredicate } from "./gpuFilter";
import { gpuSentences } from "./gpuText";
import { cellAt, DENSITIES, fitting, hit, layoutOf, moveFocus, tileAt, type Focus, type Layout, type Spot } from "./layout";
import { paintMap, type View } from "./paintMap";
import { paletteOf } from "./palette";
import { Tooltip } from "./Tooltip";

interface Props {
  nodes: readonly LiveNode[];
  jobs: ReadonlyMap<string, LiveJob>;
  telemetry: ReadonlyMap<string, NodeTelemetryRow>;
  groupOf: (job: string | null) => Group | null;
  wanted: CellPredicate | null;
  level: ((node: LiveNode, gpu: number) => number | null) | null;
  highlightedGroup: string | null;
  /** null: the largest with which all nodes fit on the screen. */
  zoom: number | null;
  onZoom: (shown: number) => void;
  onJob: (job: string) => void;
  onNode: (node: string) => void;
}

const HEIGHT_SHARE = 0.56;
const MIN_HEIGHT = 320;
const HEAD = 60; // what may lie over the top of the window

/** The GPU map on a canvas. Only the visible part is drawn, and only after changes. */
export function GpuMap(props: Props) {
  const { nodes, jobs, telemetry } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useSignal(0);
  const hoverSpot = useSignal<(Spot & { by: "mouse" | "touch" | "keys" }) | null>(null);
  const focus = useSignal<Focus>({ node: 0, gpu: 0 });
  const focused = useSignal(false);
  const frame = useRef(0);
  const view = useRef<View | null>(null);

  const most = nodes.reduce((found, node) => Math.max(found, node.devices.length), 0);
  const maxHeight = Math.max(MIN_HEIGHT, Math.round(innerHeight * HEIGHT_SHARE));
  const zoom = props.zoom ?? fitting(nodes.length, most, width.value, maxHeight);
  const layout = layoutOf(nodes.length, most, Math.max(1, width.value), DENSITIES[zoom]!);
  const gpusOf = (node: number): number => nodes[node]?.devices.length ?? 0;
  const focusedCell: Focus = { node: Math.min(focus.value.node, Math.max(0, nodes.length - 1)), gpu: focus.value.gpu };
  if (focusedCell.gpu >= gpusOf(focusedCell.node)) focusedCell.gpu = Math.max(0, gpusOf(focusedCell.node) - 1);
  const shown = hoverSpot.value && hoverSpot.value.node < nodes.length ? hoverSpot.value : null;
  const shownCell = shown && shown.gpu !== null ? nodes[shown.node]!.devices[shown.gpu] : undefined;
  const highlightedJob = shownCell?.[1] ?? shownCell?.[2] ?? null;

  useEffect(() => props.onZoom(zoom), [zoom]);
  useLayoutEffect(() => {
    const box = scroller.current!;
    width.value = box.clientWidth;
    const watch = new ResizeObserver(() => (width.value = box.clientWidth));
    watch.observe(box);
    addEventListener("scroll", draw, { passive: true });
    addEventListener("resize", draw);
    return () => {
      watch.disconnect();
      removeEventListener("scroll", draw);
      removeEventListener("resize", draw);
      cancelAnimationFrame(frame.current);
    };
  }, []);

  const draw = (): void => {
    frame.current ||= requestAnimationFrame(() => {
      frame.current = 0;
      if (canvas.current && scroller.current && view.current) paint(canvas.current, scroller.current, view.current);
    });
  };
  const theme = themeVersion.value;
  const palette = useRef<{ theme: number; found: View["palette"] } | null>(null);
  useLayoutEffect(() => {
    if (palette.current?.theme !== theme) palette.current = { theme, found: paletteOf(scroller.current!) };
    view.current = {
      nodes,
      layout,
      groupOf: props.groupOf,
      wanted: props.wanted,
      level: props.level,
      highlighted: props.highlightedGroup !== null ? { group: props.highlightedGroup } : highlightedJob !== null ? { job: highlightedJob } : null,
      focus: focused.value ? focusedCell : null,
      palette: palette.current.found,
    };
    draw();
  });

  const spotAt = (event: PointerEvent | MouseEvent): Spot | null => {
    const box = scroller.current!.getBoundingClientRect();
    return hit(layout, gpusOf, event.clientX - box.left, event.clientY - box.top);
  };
  const open = (where: Spot): void => {
    const node = nodes[where.node]!;
    const job = where.gpu === null ? null : jobAt(node.devices[where.gpu]!);
    if (job) props.onJob(job);
    else props.onNode(node.node);
  };
  const onKey = (event: KeyboardEvent): void => {
    const next = moveFocus(layout, gpusOf, focusedCell, event.key, event.ctrlKey || event.metaKey);
    if (next) {
      focus.value = next;
      hoverSpot.value = { ...next, by: "keys" };
      reveal(scroller.current!, layout, next);
    } else if (event.key === "Enter") open(focusedCell);
    else if (event.key === "n" && !event.ctrlKey && !event.metaKey) props.onNode(nodes[focusedCell.node]!.node);
    else if (event.key === "Escape") hoverSpot.value = null;
    else return;
    event.preventDefault();
  };

  const current = nodes[focusedCell.node];
  return (
    <div class="card map-frame">
      <div
        class="map-scroll"
        ref={scroller}
        tabIndex={0}
        role="listbox"
        aria-label={`GPUs: ${count(nodes.length, "node")}`}
        aria-describedby="map-keys"
        aria-activedescendant={current ? `gpu-${focusedCell.node}-${focusedCell.gpu}` : undefined}
        onKeyDown={onKey}
        onFocus={() => {
          focused.value = true;
          if (scroller.current!.matches(":focus-visible")) hoverSpot.value = { ...focusedCell, by: "keys" };
        }}
        onBlur={() => {
          focused.value = false;
          if (hoverSpot.value?.by === "keys") hoverSpot.value = null;
        }}
        onPointerMove={(event) => {
          if (event.pointerType !== "mouse") return;
          const found = spotAt(event);
          if (found?.node !== hoverSpot.value?.node || found?.gpu !== hoverSpot.value?.gpu) hoverSpot.value = found && { ...found, by: "mouse" };
        }}
        onPointerLeave={(event) => {
          if (event.pointerType === "mouse" && hoverSpot.value?.by === "mouse") hoverSpot.value = null;
        }}
        onClick={(event) => {
          const found = spotAt(event);
          if (!found) return void (hoverSpot.value = null);
          if (found.gpu !== null) focus.value = { node: found.node, gpu: found.gpu };
          const touched = "pointerType" in event && event.pointerType === "touch";
          if (touched && found.gpu !== null) hoverSpot.value = { ...found, by: "touch" };
          else open(found);
        }}
      >
        <div class="map-content" style={{ height: `${layout.height}px` }}>
          <canvas class="map-canvas" ref={canvas} aria-hidden="true" />
        </div>
        {current && (
          <div id={`gpu-${focusedCell.node}-${focusedCell.gpu}`} key={`${focusedCell.node}-${focusedCell.gpu}`} role="option" aria-selected={true} class="visually-hidden">
            {cellTitle(current, focusedCell.gpu)}: {gpuSentences(current, focusedCell.gpu, jobs, telemetry.get(current.node), now.peek()).join(" ")}
          </div>
        )}
      </div>
      {shown && scroller.current && (
        <Tooltip
          key="tip"
          {...anchor(scroller.current, layout, shown)}
          title={shown.gpu === null ? nodes[shown.node]!.node : cellTitle(nodes[shown.node]!, shown.gpu)}
          sentences={() => sentencesOf(nodes[shown.node]!, shown.gpu, jobs, telemetry)}
          hint={shown.by === "touch" ? null : hintOf(nodes[shown.node]!, shown.gpu, shown.by)}
          actions={
            shown.by !== "touch"
              ? null
              : {
                  job: shownCell ? jobAt(shownCell) : null,
                  onJob: props.onJob,
                  onNode: () => props.onNode(nodes[shown.node]!.node),
                  onClose: () => (hoverSpot.value = null),
                }
          }
        />
      )}
      <p id="map-keys" class="visually-hidden map-keys">
        <span>Arrow keys move between GPUs, Enter opens the job, N opens the node.</span>
      </p>
    </div>
  );
}

function sentencesOf(node: LiveNode, gpu: number | null, jobs: ReadonlyMap<string, LiveJob>, telemetry: ReadonlyMap<string, NodeTelemetryRow>): string[] {
  if (gpu !== null) return gpuSentences(node, gpu, jobs, telemetry.get(node.node), now.value);
  return [`${devicesText(node)}${node.gpu_models.map((model) => `, ${model}`).join("")}.`, `The node ${NODE_STATE_TEXTS[node.state] ?? `is ${node.state}`}.`];
}

function hintOf(node: LiveNode, gpu: number | null, by: string): string {
  const job = gpu === null ? null : jobAt(node.devices[gpu] ?? ["free", null, null, [], null]);
  return by === "keys" ? (job ? "Enter: open job. N: open node." : "Enter: open node.") : job ? "Click: open job." : "Click: open node.";
}

/** The canvas is as high as the window and stays in it while the page scrolls: what is seen of the map is drawn. */
function paint(canvas: HTMLCanvasElement, scroller: HTMLElement, view: View): void {
  const width = scroller.clientWidth;
  const height = Math.min(view.layout.height, innerHeight);
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const ctx = canvas.getContext("2d")!;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  paintMap(ctx, view, Math.max(0, canvas.getBoundingClientRect().top - scroller.getBoundingClientRect().top), width, height);
}

function reveal(scroller: HTMLElement, layout: Layout, to: Focus): void {
  const top = scroller.getBoundingClientRect().top + tileAt(layout, to.node).y;
  if (top < HEAD) scrollBy(0, top - HEAD);
  else if (top + layout.tileHeight > innerHeight) scrollBy(0, top + layout.tileHeight - innerHeight);
}

/** The anchor of the tooltip, relative to the map's frame. */
function anchor(scroller: HTMLElement, layout: Layout, shown: Spot): { x: number; y: number; below: number; width: number } {
  const tile = tileAt(layout, shown.node);
  const cell = shown.gpu === null ? { x: 0, y: 0 } : cellAt(layout, shown.gpu);
  const y = tile.y + cell.y;
  return { x: tile.x + cell.x + layout.cell / 2, y, below: y + (shown.gpu === null ? layout.label || layout.cell : layout.cell), width: scroller.clientWidth };
}
