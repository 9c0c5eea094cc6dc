import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { get, keepCsrf } from "../lib/api";
import type { Board, Change, ClassRow, ConsoleState, EventLine, LiveJob, LiveProject, NodeCells, NodeTelemetry, PoolRow } from "./shapes";

const ALWAYS = ["nodes", "jobs", "projects"] as const;
const EVENTS_KEPT = 2_000;
const SILENT_MS = 30_000; // the console says something every ten seconds
const AGAIN_MS = [500, 1_000, 2_000, 5_000];

/** opening: nothing has come yet; lost: what is shown is of before. */
export type Connection = "opening" | "live" | "lost";

/**
 * A pool as it is now. Rows are replaced, never changed, so a row that is the same object is the same row. A component that reads
 * a map reads its version first (`live.jobsAt.value`): the maps themselves are no signals, so that 200 changes a second cost nothing
 * to whoever does not look.
 */
export class Live {
  readonly connection = signal<Connection>("opening");
  readonly told = signal<ConsoleState>({ kafka: true, archive: true, behind_s: 0 });
  readonly row = signal<PoolRow | null>(null);
  readonly seq = signal(-1);
  readonly time = signal<string | null>(null);
  readonly queue = signal<string[]>([]);
  readonly classes = signal<ClassRow[]>([]);
  readonly nodes = new Map<string, NodeCells>();
  readonly jobs = new Map<string, LiveJob>();
  readonly projects = new Map<string, LiveProject>();
  readonly telemetry = new Map<string, NodeTelemetry>();
  readonly nodesAt = signal(0);
  readonly jobsAt = signal(0);
  readonly projectsAt = signal(0);
  readonly telemetryAt = signal(0);
  /** The newest last. */
  readonly events = signal<EventLine[]>([]);

  private source: EventSource | null = null;
  private last: string | null = null;
  private tries = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private silence: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly pool: string,
    private show: readonly string[],
  ) {
    document.addEventListener("visibilitychange", this.seen);
    this.open();
  }

  /** Whether its stream carries all of these. */
  covers(show: readonly string[]): boolean {
    return show.every((channel) => this.show.includes(channel));
  }

  widen(show: readonly string[]): void {
    this.show = [...new Set([...this.show, ...show])];
    this.last = null; // the new channels need a board of their own
    this.open();
  }

  close(): void {
    document.removeEventListener("visibilitychange", this.seen);
    this.shut();
  }

  // A browser has six connections to an origin: a tab that nobody sees gives its own back.
  private seen = (): void => (document.hidden ? this.shut() : this.open());

  private shut(): void {
    clearTimeout(this.timer);
    clearTimeout(this.silence);
    this.source?.close();
    this.source = null;
  }

  private open(): void {
    this.shut();
    if (document.hidden) return;
    const after = this.last === null ? "" : `&after=${encodeURIComponent(this.last)}`;
    const source = new EventSource(`/api/pools/${encodeURIComponent(this.pool)}/live?show=${this.show.join(",")}${after}`);
    this.source = source;
    source.addEventListener("board", (event) => this.board(event));
    source.addEventListener("change", (event) => this.change(event));
    for (const name of ["board", "change", "telemetry", "state"]) source.addEventListener(name, () => this.heard(source));
    this.heard(source);
    source.addEventListener("telemetry", (event) => {
      for (const [name, row] of Object.entries(JSON.parse(event.data).nodes as Record<string, NodeTelemetry>)) this.telemetry.set(name, row);
      this.telemetryAt.value += 1;
    });
    source.addEventListener("state", (event) => (this.told.value = JSON.parse(event.data)));
    source.onopen = () => {
      this.tries = 0;
      if (this.seq.peek() >= 0) this.connection.value = "live";
    };
    source.onerror = () => this.broken(source);
  }

  private broken(source: EventSource): void {
    if (this.source !== source) return;
    clearTimeout(this.silence);
    if (this.seq.peek() >= 0 || this.tries > 0) this.connection.value = "lost";
    source.close();
    this.again();
  }

  /** A stream that is gone without a word, as after a laptop's sleep, is opened anew. */
  private heard(source: EventSource): void {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.broken(source), SILENT_MS);
  }

  private again(): void {
    this.timer = setTimeout(() => void this.reach(), AGAIN_MS[Math.min(this.tries, AGAIN_MS.length - 1)]);
    this.tries += 1;
  }

  /** A stream that fails does not say why. A console that was started anew knows no session: asking it leads through its sign-in. */
  private async reach(): Promise<void> {
    try {
      keepCsrf((await get<{ csrf: string }>("/api/me")).csrf);
    } catch {
      if (!document.hidden) this.again();
      return;
    }
    this.open();
  }

  private board(event: MessageEvent): void {
    const board = JSON.parse(event.data) as Board;
    fill(this.nodes, board.nodes);
    fill(this.jobs, board.jobs);
    fill(this.projects, board.projects);
    this.queue.value = board.queue ?? [];
    this.classes.value = board.classes ?? [];
    if (board.events) this.events.value = board.events;
    this.row.value = board.pool;
    this.nodesAt.value += 1;
    this.jobsAt.value += 1;
    this.projectsAt.value += 1;
    this.reached(event, board.seq, board.time);
  }

  private change(event: MessageEvent): void {
    const change = JSON.parse(event.data) as Change;
    if (put(this.nodes, change.set?.nodes, change.gone?.nodes)) this.nodesAt.value += 1;
    if (put(this.jobs, change.set?.jobs, change.gone?.jobs)) this.jobsAt.value += 1;
    if (put(this.projects, change.set?.projects, change.gone?.projects)) this.projectsAt.value += 1;
    if (change.queue) this.queue.value = change.queue;
    if (change.classes) this.classes.value = change.classes;
    if (change.pool) this.row.value = change.pool;
    if (change.events?.length) this.events.value = [...this.events.peek(), ...change.events].slice(-EVENTS_KEPT);
    this.reached(event, change.seq, change.time);
  }

  private reached(event: MessageEvent, seq: number, time: string | null): void {
    this.last = event.lastEventId || `${this.pool}:${seq}`;
    this.seq.value = seq;
    this.time.value = time;
    this.connection.value = "live";
  }
}

function fill<T>(map: Map<string, T>, rows: Record<string, T> | undefined): void {
  map.clear();
  for (const [name, row] of Object.entries(rows ?? {})) map.set(name, row);
}

function put<T>(map: Map<string, T>, rows: Record<string, T> | undefined, gone: string[] | undefined): boolean {
  for (const name of gone ?? []) map.delete(name);
  for (const [name, row] of Object.entries(rows ?? {})) map.set(name, row);
  return Boolean(rows || gone);
}

let current: Live | null = null;

/** The one stream of this page. More channels than now: it is opened anew with them. */
export function liveOf(pool: string, show: readonly string[] = []): Live {
  if (current?.pool !== pool) {
    current?.close();
    current = new Live(pool, [...ALWAYS, ...show]);
  }
  return current;
}

/** `extra`: "telemetry", "events". */
export function useLive(pool: string, ...extra: string[]): Live {
  const live = liveOf(pool, extra);
  useEffect(() => {
    if (!live.covers(extra)) live.widen(extra);
  }, [live, extra.join()]);
  return live;
}
