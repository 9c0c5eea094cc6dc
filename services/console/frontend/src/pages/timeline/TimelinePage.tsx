import { useSignal } from "@preact/signals";
import { useLocation } from "preact-iso";
import { useEffect, useMemo, useRef } from "preact/hooks";

import { archivePath, get, useArchive, usePolling, type AllocationItem, type Eviction, type Page, type RecordDetails, type RecordItem } from "../../api";
import { betweenOf, betweenQuery, count, duration, momentAt, now, rangeLength, rangeOptions, usePageTitle } from "../../lib";
import { PoolStatePending, useLive, type LivePool } from "../../live";
import { COLOURS, groupsOf, projectNames } from "../../shared/colourGroups";
import { Card, DataTable, decisionPath, EmptyState, JobLink, Loaded, projectPath, SegmentedControl, Select, SignButton, TimeRangePicker } from "../../ui";
import { moveTo } from "./logSlider";
import { moved, poolTimeline, recorded, zoomed, type PoolTimeline, type Span } from "./poolTimeline";
import { ReplayPlayer, stepFrom, type Step } from "./ReplayPlayer";
import { TimelinePicture } from "./TimelinePicture";
import "./timeline.css";

const RANGES = rangeOptions("10m", "1h", "6h", "24h");
const NODES_AT_ONCE = 32;
const PAGE = 1_000;
const PAGES = 3;
const EVICTIONS = 500;
const LONGEST_EVICTION_MS = 600_000;
const REFRESH_MS = 5_000;
const LEGEND = [["reserved", "reserved"], ["grace", "evicting: the grace period"], ["checkpoint", "saving a checkpoint"], ["arrow", "preemption, from preemptor to victim"]] as const;

interface Loaded {
  allocations: AllocationItem[];
  evictions: Eviction[];
  /** More than is shown is in the range. */
  more: boolean;
}

/** The pool over time, live and in the past, with the player over its log. The URL holds range, nodes and record. */
export default function TimelinePage({ pool }: { pool: string }) {
  const live = useLive(pool);
  usePageTitle(`${pool}: timeline`);
  return live.row.value === null ? <PoolStatePending title="Timeline" what="the timeline" live={live} /> : <Timeline key={pool} pool={pool} live={live} />;
}

function Timeline({ pool, live }: { pool: string; live: LivePool }) {
  const { query, path, route } = useLocation();
  const archive = useArchive();
  const step = useSignal<Step>("eviction");
  const showing = useSignal<"picture" | "table">("picture");
  const range = RANGES.find(([each]) => each === query.range)?.[0] ?? "10m";
  const own = betweenOf(query);
  const end = own ? now.peek() : now.value; // a range of the past needs no clock
  const there = archive.state === "there";
  const began = usePolling<Page<RecordItem>>(there ? pool : null, (signal) => get(archivePath(pool, "records?order=asc&limit=1"), signal), (value) => (value?.items.length ? null : REFRESH_MS));
  const oldest = began.value?.items[0];
  const span: Span = own ? { from: Date.parse(own.from), to: Date.parse(own.to) } : recorded({ from: end - rangeLength(range), to: end }, oldest ? Date.parse(oldest.time) : null);
  const head = live.seq.value;
  const at = query.at !== undefined && /^\d{1,15}$/.test(query.at) ? moveTo({ first: 0, head: Math.max(0, head) }, Number(query.at)) : null;
  const go = (changed: Record<string, string | null>): void => {
    const asked = Object.entries({ ...query, ...changed }).filter((each): each is [string, string] => each[1] !== null && each[1] !== undefined);
    route(asked.length ? `${path}?${new URLSearchParams(asked)}` : path, true);
  };
  const zoom = ({ from, to }: Span): void => go({ range: null, ...Object.fromEntries(betweenQuery({ from: new Date(from).toISOString(), to: new Date(to).toISOString() })) });

  void live.nodesVersion.value;
  const names = [...live.nodes.keys()];
  const first = Math.min(Math.max(0, Number(query.nodes) || 0), Math.max(0, names.length - 1));
  const nodes = names.slice(first, first + NODES_AT_ONCE);
  const some = names.length > NODES_AT_ONCE;
  const key = `${pool} ${some ? nodes.join() : ""} ${own ? `${own.from} ${own.to}` : range}`;
  const loaded = usePolling<Loaded>(there ? key : null, (signal) => load(pool, own ? span : { ...span, to: now.peek() }, some ? nodes : [], signal), () => REFRESH_MS);
  const last = useRef<Loaded | null>(null);
  last.current = loaded.value ?? last.current;
  const found = last.current;
  const timeline = useMemo(() => poolTimeline(nodes.map((node) => ({ node, gpus: live.nodes.get(node)!.devices.length })), found?.allocations ?? [], found?.evictions ?? [], end), [found, nodes.join(), end]);
  const groups = groupsOf(projectNames(live.projects.values(), live.jobs.values()));
  const colourOf = (project: string): number => groups.get(project)?.colour ?? COLOURS - 2;

  const { value: record, failure: missing } = usePolling<RecordDetails>(there && at !== null ? `${pool} ${at}` : null, (signal) => get(archivePath(pool, `records/${at}`), signal), (value) => (value ? null : REFRESH_MS));
  const playhead = record?.seq === at ? { seq: record.seq, at: Date.parse(record.time) } : null;
  useEffect(() => {
    if (playhead && (playhead.at < span.from || playhead.at > span.to)) zoom({ from: playhead.at - (span.to - span.from) / 2, to: playhead.at + (span.to - span.from) / 2 });
  }, [playhead?.seq, playhead === null]);
  const onStep = (by: 1 | -1): void => void stepFrom(pool, { first: 0, head }, at ?? head, step.peek(), by).then((next) => go({ at: String(next) })).catch(() => undefined);
  const words = found ? wordsOf(timeline, span) : "Loading the timeline…";

  return (
    <div class="stack page">
      <div class="row page-head">
        <h1>Timeline</h1>
        <span class="soft">Which job had which GPUs, and who took them from whom.</span>
      </div>
      <Card
        title="GPUs over time"
        aside={<SegmentedControl legend="Show the timeline as" options={[["picture", "Picture"], ["table", "Table"]]} value={showing.value} onChange={(next) => (showing.value = next)} />}
      >
        <div class="row timeline-controls">
          <TimeRangePicker presets={RANGES} value={own ? null : range} between={{ from: new Date(span.from).toISOString(), to: new Date(span.to).toISOString() }} onPreset={(next) => go({ range: next, from: null, to: null })} onBetween={(next) => go({ range: null, ...Object.fromEntries(betweenQuery(next)) })} />
          <span class="row">
            <SignButton sign="◀" label="Earlier" onClick={() => zoom(moved(span, -0.5, end))} />
            <SignButton sign="−" label="Zoom out" onClick={() => zoom(zoomed(span, 2, (span.from + span.to) / 2, end))} />
            <SignButton sign="+" label="Zoom in" onClick={() => zoom(zoomed(span, 0.5, playhead?.at ?? (span.from + span.to) / 2, end))} />
            <SignButton sign="▶" label="Later" onClick={() => zoom(moved(span, 0.5, end))} />
          </span>
          {some && <Select label="Nodes" value={String(first)} options={parts(names)} onChange={(next) => go({ nodes: next === "0" ? null : next })} />}
        </div>
        {archive.state === "none" ? (
          <EmptyState title="The timeline is unavailable">It comes from the archive, and none is configured.</EmptyState>
        ) : (
          <Loaded of={{ value: found || !loaded.failure ? timeline : null, failure: loaded.failure }} what="the timeline" retry={loaded.refresh}>
            {(drawn) => (
              <>
                {showing.value === "picture" ? (
                  <TimelinePicture pool={pool} timeline={drawn} span={span} end={end} playhead={playhead} colourOf={colourOf} words={words} onZoom={zoom} onStep={onStep} />
                ) : (
                  <AsTable pool={pool} timeline={drawn} span={span} />
                )}
                <Legend pool={pool} timeline={drawn} colourOf={colourOf} />
                {found?.more && <p class="soft note">This range has more than {(PAGE * PAGES).toLocaleString("en")} allocations or {EVICTIONS} evictions; the newest are shown. Zoom in to see the others.</p>}
              </>
            )}
          </Loaded>
        )}
      </Card>
      <ReplayPlayer pool={pool} at={at} head={head} record={playhead && record} missing={missing} step={step} goTo={(seq) => go({ at: seq === null ? null : String(seq) })} />
    </div>
  );
}

/** The newest allocations and evictions of the range; of these nodes, none: of all. */
async function load(pool: string, { from, to }: Span, nodes: readonly string[], signal: AbortSignal): Promise<Loaded> {
  const asked = (start: number, limit: number): string => `${new URLSearchParams([["from", new Date(start).toISOString()], ["to", new Date(to).toISOString()], ["limit", `${limit}`], ...nodes.map((node) => ["node", node])])}`;
  const allocations: AllocationItem[] = [];
  let next: string | null = "";
  for (let page = 0; page < PAGES && next !== null; page += 1) {
    const answer: Page<AllocationItem> = await get(archivePath(pool, `allocations?${asked(from, PAGE)}${next && `&cursor=${encodeURIComponent(next)}`}`), signal);
    allocations.push(...answer.items);
    next = answer.next;
  }
  const decided = await get<Page<Eviction>>(archivePath(pool, `evictions?${asked(from - LONGEST_EVICTION_MS, EVICTIONS)}`), signal);
  return { allocations, evictions: decided.items, more: next !== null || decided.next !== null };
}

const parts = (names: readonly string[]): [string, string][] =>
  Array.from({ length: Math.ceil(names.length / NODES_AT_ONCE) }, (_, part) => {
    const at = part * NODES_AT_ONCE;
    return [`${at}`, `${names[at]} to ${names[Math.min(at + NODES_AT_ONCE, names.length) - 1]}`];
  });

const inside = (span: Span) => (each: { from: number; to: number }) => each.to >= span.from && each.from <= span.to;

function wordsOf(timeline: PoolTimeline, span: Span): string {
  const jobs = new Set(timeline.bars.filter(inside(span)).map((bar) => bar.allocation.job));
  const arrows = timeline.arrows.filter((arrow) => inside(span)({ from: arrow.to.at, to: arrow.to.at }));
  return `Timeline of ${count(timeline.lanes, "GPU")} over ${duration((span.to - span.from) / 1000)}: ${count(jobs.size, "job")}, ${count(arrows.length, "preemption")}. The table has the same as text.`;
}

function Legend({ pool, timeline, colourOf }: { pool: string; timeline: PoolTimeline; colourOf: (project: string) => number }) {
  const projects = [...new Set(timeline.bars.map((bar) => bar.allocation.project ?? ""))].sort().slice(0, 12);
  return (
    <>
      <ul class="row legend">
        {projects.map((name) => (
          <li key={name}>
            <span class="timeline-key" data-colour style={{ "--own": `var(--cat-${colourOf(name)})` }} aria-hidden="true" /> {name ? <a href={projectPath(pool, name)}>{name}</a> : "no project"}
          </li>
        ))}
        {LEGEND.map(([kind, text]) => (
          <li key={kind}>
            <span class="timeline-key" data-kind={kind} aria-hidden="true" /> {text}
          </li>
        ))}
      </ul>
      <p class="soft note" id="timeline-keys">
        Click a job or an arrow to open it; drag to zoom in, double-click to zoom out. Keys: ← → move, + − zoom, n p next and previous step of the player, Enter opens its decision.
      </p>
    </>
  );
}

function AsTable({ pool, timeline, span }: { pool: string; timeline: PoolTimeline; span: Span }) {
  const arrows = timeline.arrows.filter((arrow) => inside(span)({ from: arrow.to.at, to: arrow.to.at })).sort((one, other) => other.to.at - one.to.at);
  const bars = timeline.bars.filter(inside(span)).sort((one, other) => other.from - one.from);
  return (
    <div class="stack">
      <DataTable
        caption="Preemptions, newest first"
        rows={arrows}
        rowKey={(row) => row.key}
        columns={[
          { head: "Decision", cell: (row) => <a href={decisionPath(pool, row.eviction.decided_seq)}>#{row.eviction.decided_seq}</a> },
          { head: "Time", cell: (row) => momentAt(row.to.at) },
          { head: "Preemptor", cell: (row) => <JobLink pool={pool} job={row.eviction.for_job!} /> },
          { head: "Victim", cell: (row) => <JobLink pool={pool} job={row.eviction.job} /> },
          { head: "Released after", right: true, cell: (row) => (row.eviction.until_released_s === null ? "–" : duration(row.eviction.until_released_s)) },
          { head: "Action", cell: (row) => row.eviction.action ?? "" },
        ]}
      />
      <DataTable
        caption="Allocations and reservations, newest first"
        rows={bars}
        rowKey={(row) => row.key}
        columns={[
          { head: "Job", cell: (row) => <JobLink pool={pool} job={row.allocation.job} /> },
          { head: "Kind", cell: (row) => row.allocation.kind },
          { head: "Node", cell: (row) => row.allocation.node },
          { head: "GPUs", cell: (row) => row.gpus },
          { head: "From", cell: (row) => momentAt(row.from) },
          { head: "For", right: true, cell: (row) => (row.open ? "until now" : duration((row.to - row.from) / 1000)) },
        ]}
      />
    </div>
  );
}

