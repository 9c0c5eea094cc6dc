// What the live stream carries: the same names as in bailiff_console/live/ and as in `bailiff … -o json`.

export interface PoolRow {
  pool: string;
  head_seq: number;
  head_time: string | null;
  policy_seq: number;
  nodes: number;
  nodes_ready: number;
  nodes_drained: number;
  gpus: number;
  gpus_free: number;
  gpus_held: number;
  gpus_reserved: number;
  gpus_quarantined: number;
  gpus_unhealthy: number;
  jobs_running: number;
  jobs_waiting: number;
  jobs_leaving: number;
  jobs_paused: number;
  preempting: boolean;
  verbs_off: string[];
  projects: number;
}

export type CellState = "free" | "shared" | "held" | "leaving" | "reserved" | "unhealthy" | "quarantined";

/** state, who holds it, for whom it is reserved, who shares it (`job/task`), what is wrong with it. */
export type Cell = [CellState, string | null, string | null, string[], string | null];

export interface NodeCells {
  node: string;
  number: number;
  state: "ready" | "unreachable" | "lost" | "draining" | "drained";
  drain: string | null;
  quarantined: number;
  gpus: Cell[];
  model: string;
  cpu_milli: number;
  cpu_milli_free: number;
  memory_bytes: number;
  memory_bytes_free: number;
  labels: Record<string, string>;
}

export interface LiveEviction {
  for_job: string | null;
  cause: string;
  stage: string;
  decided_seq: number;
  began_at: string | null;
  deadline: string | null;
}

export interface LiveJob {
  job: string;
  project: string;
  class: string;
  priority: number;
  preemptible: boolean;
  state: string;
  gpus: number;
  gpus_text: string;
  placed: number;
  tasks: number;
  min_tasks: number;
  nodes: string[];
  reserved_nodes: string[];
  attempt: number;
  evictions: number;
  submitted_at: string | null;
  started_at: string | null;
  waiting_since: string | null;
  ahead: number | null;
  note: string;
  why: string;
  why_seq: number | null;
  why_rule: string | null;
  user: string;
  step: number | null;
  checkpoint_step: number | null;
  checkpoint_at: string | null;
  eviction: LiveEviction | null;
  back: string | null;
}

/** null: no bound. */
export interface Amounts {
  gpu_milli: number | null;
  cpu_milli: number | null;
  memory_bytes: number | null;
}

export interface LiveProject {
  project: string;
  parent: string | null;
  depth: number;
  description: string;
  priority: number;
  weight: Record<string, number>;
  used: Amounts;
  non_preemptible: Amounts;
  quota: Amounts;
  limit: Amounts;
  fair_share: Amounts;
  borrowed: Amounts;
  standing: string;
  jobs_running: number;
  jobs_pending: number;
  evictions_suffered: number;
  evictions_caused: number;
  gpu_hours_lost: number;
}

export interface ClassRow {
  priority_class: string;
  value: number;
  preemptible: boolean;
  displaces_others: boolean;
  is_default: boolean;
  immediate: boolean;
  grace_s: number;
  users: string[] | null;
  jobs_running: number;
  jobs_pending: number;
}

export interface EventLine {
  seq: number;
  time: string;
  type: string;
  word: string;
  job: string | null;
  project: string | null;
  node: string | null;
  text: string;
}

export interface Board {
  pool: PoolRow;
  seq: number;
  time: string | null;
  nodes?: Record<string, NodeCells>;
  jobs?: Record<string, LiveJob>;
  projects?: Record<string, LiveProject>;
  queue?: string[];
  classes?: ClassRow[];
  events?: EventLine[];
}

export interface Change {
  seq: number;
  time: string | null;
  pool?: PoolRow;
  set?: { nodes?: Record<string, NodeCells>; jobs?: Record<string, LiveJob>; projects?: Record<string, LiveProject> };
  gone?: { nodes?: string[]; jobs?: string[]; projects?: string[] };
  queue?: string[];
  classes?: ClassRow[];
  events?: EventLine[];
}

/** Of each device: utilisation in percent, bytes of memory in use, and in all; null: unknown, or nobody holds it. */
export interface NodeTelemetry {
  at: string;
  devices: [number | null, number | null, number | null][];
}

/** What the console itself can see. */
export interface ConsoleState {
  kafka: boolean;
  archive: boolean;
  behind_s: number;
}
