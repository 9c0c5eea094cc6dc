import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { get, poolPath, setCsrfToken, type ClassRow, type ConsoleState, type EventLine, type LiveJob, type LiveProject, type LiveNode, type NodeTelemetryRow, type PoolChange, type PoolRow, type PoolSnapshot } from "../api";
import { inOrder } from "../lib";

const BASE_CHANNELS = ["nodes", "jobs", "projects"] as const;
const MAX_EVENTS = 2_000;
const SILENCE_TIMEOUT_MS = 30_000; // the console sends a message every ten seconds
const RECONNECT_DELAYS_MS = [500, 1_000, 2_000, 5_000];

/** Whether a hidden tab keeps its stream: only where the user wants notifications from it. */
export const keepWhenHidden = signal(false);

/** opening: no state received yet; lost: the state shown is stale. */
export type Connection = "opening" | "live" | "lost";

/**
 * The current state of a pool, from its event stream. Rows are replaced, never mutated. A component that reads a map reads its
 * version first (`live.jobsVersion.value`): the maps are not signals, so that 200 changes a second cost nothing to components
 * that do not read them.
 */
export class LivePool {
  readonly connection = signal<Connection>("opening");
  readonly consoleState = signal<ConsoleState>({ kafka: true, kafka_since: null, archive: true, auditor_since: null, behind_s: 0, behind: 0, fault: null });
  readonly row = signal<PoolRow | null>(null);
  readonly seq = signal(-1);
  readonly time = signal<string | null>(null);
  /** The first pending jobs, in order; `row.jobs_pending` counts all. */
  readonly queue = signal<string[]>([]);
  readonly classes = signal<ClassRow[]>([]);
  /** In the order of their names. */
  readonly nodes = new Map<string, LiveNode>();
  readonly jobs = new Map<string, LiveJob>();
  readonly projects = new Map<string, LiveProject>();
  readonly telemetry = new Map<string, NodeTelemetryRow>();
  readonly nodesVersion = signal(0);
  readonly jobsVersion = signal(0);
  readonly projectsVersion = signal(0);
  readonly telemetryVersion = signal(0);
  /** Oldest first. */
  readonly events = signal<EventLine[]>([]);

  /** Called with each row of a job or node that changes; before or after is null where there is none. */
  onRow: ((kind: "job" | "node", before: LiveJob | LiveNode | null, after: LiveJob | LiveNode | null) => void) | null = null;
  /** A job whose row is sent wherever it stands in the queue. */
  private watched: string | null = null;
  private source: EventSource | null = null;
  private lastEventId: string | null = null;
  private attempts = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private silenceTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly pool: string,
    private channels: readonly string[],
  ) {
    document.addEventListener("visibilitychange", this.onVisibilityChange);
    this.open();
  }

  /** Whether the stream includes all of these channels. */
  hasChannels(channels: readonly string[]): boolean {
    return channels.every((channel) => this.channels.includes(channel));
  }

  addChannels(channels: readonly string[]): void {
    this.channels = [...new Set([...this.channels, ...channels])];
    this.lastEventId = null; // the new channels need a snapshot
    this.open();
  }

  /** Also receive this job: the stream has only the first pending ones. null: none. */
  watch(job: string | null): void {
    if (job === this.watched) return;
    this.watched = job;
    if (job === null || (this.seq.peek() >= 0 && this.jobs.has(job))) return; // sent already; told with the next connection
    this.lastEventId = null; // the job needs a snapshot
    this.open();
  }

  close(): void {
    document.removeEventListener("visibilitychange", this.onVisibilityChange);
    this.disconnect();
  }

  // A browser allows six connections per origin: hidden tabs release theirs.
  private onVisibilityChange = (): void => {
    if (document.hidden && !keepWhenHidden.value) this.disconnect();
    else if (this.source === null) this.open();
  };

  private disconnect(): void {
    clearTimeout(this.timer);
    clearTimeout(this.silenceTimer);
    this.source?.close();
    this.source = null;
  }

  private open(): void {
    this.disconnect();
    if (document.hidden && !keepWhenHidden.value) return;
    const after = this.lastEventId === null ? "" : `&after=${encodeURIComponent(this.lastEventId)}`;
    const job = this.watched === null ? "" : `&job=${encodeURIComponent(this.watched)}`;
    const source = new EventSource(`${poolPath(this.pool, "live")}?include=${this.channels.join(",")}${job}${after}`);
    this.source = source;
    source.addEventListener("snapshot", (event) => this.onSnapshot(event));
    source.addEventListener("change", (event) => this.onChange(event));
    for (const name of ["snapshot", "change", "telemetry", "state"]) source.addEventListener(name, () => this.resetSilenceTimer(source));
    this.resetSilenceTimer(source);
    source.addEventListener("telemetry", (event) => {
      for (const [name, row] of Object.entries(JSON.parse(event.data).nodes as Record<string, NodeTelemetryRow>)) this.telemetry.set(name, row);
      this.telemetryVersion.value += 1;
    });
    source.addEventListener("state", (event) => (this.consoleState.value = JSON.parse(event.data)));
    source.onopen = () => {
      this.attempts = 0;
      if (this.seq.peek() >= 0) this.connection.value = "live";
    };
    source.onerror = () => this.onLost(source);
  }

  private onLost(source: EventSource): void {
    if (this.source !== source) return;
    clearTimeout(this.silenceTimer);
    if (this.seq.peek() >= 0 || this.attempts > 0) this.connection.value = "lost";
    source.close();
    this.scheduleReconnect();
  }

  /** Reconnects a stream that is silent for too long, e.g. after the machine slept. */
  private resetSilenceTimer(source: EventSource): void {
    clearTimeout(this.silenceTimer);
    this.silenceTimer = setTimeout(() => this.onLost(source), SILENCE_TIMEOUT_MS);
  }

  private scheduleReconnect(): void {
    this.timer = setTimeout(() => void this.reconnect(), RECONNECT_DELAYS_MS[Math.min(this.attempts, RECONNECT_DELAYS_MS.length - 1)]);
    this.attempts += 1;
  }

  /** EventSource hides the cause of an error. A restarted console has lost the session: this request redirects to the sign-in page. */
  private async reconnect(): Promise<void> {
    try {
      setCsrfToken((await get<{ csrf: string }>("/api/me")).csrf);
    } catch {
      if (!document.hidden) this.scheduleReconnect();
      return;
    }
    this.open();
  }

  private onSnapshot(event: MessageEvent): void {
    const onSnapshot = JSON.parse(event.data) as PoolSnapshot;
    replaceAll(this.nodes, inOrder(onSnapshot.nodes));
    replaceAll(this.jobs, Object.entries(onSnapshot.jobs ?? {}));
    replaceAll(this.projects, Object.entries(onSnapshot.projects ?? {}));
    this.queue.value = onSnapshot.queue ?? [];
    this.classes.value = onSnapshot.classes ?? [];
    if (onSnapshot.events) this.events.value = onSnapshot.events;
    this.row.value = onSnapshot.pool;
    this.nodesVersion.value += 1;
    this.jobsVersion.value += 1;
    this.projectsVersion.value += 1;
    this.advance(event, onSnapshot.seq, onSnapshot.time);
  }

  private onChange(event: MessageEvent): void {
    const onChange = JSON.parse(event.data) as PoolChange;
    this.tell("node", this.nodes, onChange.updated?.nodes, undefined);
    this.tell("job", this.jobs, onChange.updated?.jobs, onChange.removed?.jobs);
    const known = this.nodes.size;
    if (applyRows(this.nodes, onChange.updated?.nodes)) {
      if (this.nodes.size > known) replaceAll(this.nodes, inOrder(Object.fromEntries(this.nodes)));
      this.nodesVersion.value += 1;
    }
    const without = [...(onChange.removed?.jobs ?? []), ...(onChange.removed?.unlisted ?? [])];
    if (applyRows(this.jobs, onChange.updated?.jobs, without)) this.jobsVersion.value += 1;
    if (applyRows(this.projects, onChange.updated?.projects, onChange.removed?.projects)) this.projectsVersion.value += 1;
    if (onChange.queue) this.queue.value = onChange.queue;
    if (onChange.classes) this.classes.value = onChange.classes;
    if (onChange.pool) this.row.value = onChange.pool;
    if (onChange.events?.length) this.events.value = [...this.events.peek(), ...onChange.events].slice(-MAX_EVENTS);
    this.advance(event, onChange.seq, onChange.time);
  }

  private tell<T extends LiveJob | LiveNode>(kind: "job" | "node", known: Map<string, T>, rows: Record<string, T> | undefined, removed: string[] | undefined): void {
    if (!this.onRow) return;
    for (const name of removed ?? []) this.onRow(kind, known.get(name) ?? null, null);
    for (const [name, row] of Object.entries(rows ?? {})) this.onRow(kind, known.get(name) ?? null, row);
  }

  private advance(event: MessageEvent, seq: number, time: string | null): void {
    this.lastEventId = event.lastEventId || `${this.pool}:${seq}`;
    this.seq.value = seq;
    this.time.value = time;
    this.connection.value = "live";
  }
}

function replaceAll<T>(map: Map<string, T>, rows: readonly [string, T][]): void {
  map.clear();
  for (const [name, row] of rows) map.set(name, row);
}

function applyRows<T>(map: Map<string, T>, rows: Record<string, T> | undefined, removed: string[] = []): boolean {
  for (const name of removed) map.delete(name);
  for (const [name, row] of Object.entries(rows ?? {})) map.set(name, row);
  return Boolean(rows || removed.length);
}

let current: LivePool | null = null;

/** The stream of the pool shown; another pool replaces it. */
export function livePoolOf(pool: string, channels: readonly string[] = []): LivePool {
  if (current?.pool !== pool) {
    current?.close();
    current = new LivePool(pool, [...BASE_CHANNELS, ...channels]);
  }
  return current;
}

/** How many pending jobs the stream has no rows of. */
export const unlistedPending = (live: LivePool): number => {
  const reserved = [...live.jobs.values()].filter((job) => job.state === "reserved").length;
  return Math.max(0, (live.row.value?.jobs_pending ?? 0) - live.queue.value.length - reserved);
};

/** The live state of a pool; `extra`: additional channels, "telemetry" or "events". */
export function useLive(pool: string, ...extra: string[]): LivePool {
  const live = livePoolOf(pool, extra);
  useEffect(() => {
    if (!live.hasChannels(extra)) live.addChannels(extra);
  }, [live, extra.join()]);
  return live;
}
