// Types of the live stream; the names equal those of bailiff_console/live/ and of `bailiff … -o json`.

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
  gpus_allocated: number;
  gpus_reserved: number;
  gpus_quarantined: number;
  gpus_unhealthy: number;
  jobs_running: number;
  jobs_pending: number;
  jobs_evicting: number;
  jobs_paused: number;
  preempting: boolean;
  disabled_actions: string[];
  projects: number;
}

export type CellState = "free" | "shared" | "allocated" | "releasing" | "reserved" | "unhealthy" | "quarantined";

/** A GPU: state, job it is allocated to, job it is reserved for, tasks that share it (`job/task`), problem. */
export type Cell = [CellState, string | null, string | null, string[], string | null];

export interface NodeCells {
  node: string;
  number: number;
  state: "ready" | "unreachable" | "lost" | "draining" | "drained";
  drain: string | null;
  quarantined: number;
  gpus: Cell[];
  /** Number, MIG profile and island of each GPU; null: GPUs without either, numbered from 0. */
  kinds?: [number, string | null, string | null][] | null;
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
  started_at: string | null;
  deadline: string | null;
}

export interface LiveJob {
  job: string;
  project: string;
  priority_class: string;
  priority: number;
  preemptible: boolean;
  state: string;
  gpus: number;
  gpus_text: string;
  placed_tasks: number;
  tasks: number;
  min_tasks: number;
  nodes: string[];
  reserved_nodes: string[];
  attempt: number;
  evictions: number;
  submitted_at: string | null;
  started_at: string | null;
  pending_since: string | null;
  jobs_ahead: number | null;
  note: string;
  pending_reason: string;
  /** When the reason was recorded: it is true at this time. */
  pending_reason_at: string | null;
  pending_reason_seq: number | null;
  pending_rule: string | null;
  user: string;
  user_verified: boolean;
  step: number | null;
  checkpoint_step: number | null;
  checkpoint_at: string | null;
  eviction: LiveEviction | null;
  restart_estimate: string | null;
}

/** Amounts of each resource; null: unlimited. */
export interface ResourceAmounts {
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
  used: ResourceAmounts;
  non_preemptible: ResourceAmounts;
  quota: ResourceAmounts;
  limit: ResourceAmounts;
  fair_share: ResourceAmounts;
  borrowed: ResourceAmounts;
  usage_text: string;
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
  can_preempt: boolean;
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
  event: string;
  job: string | null;
  project: string | null;
  node: string | null;
  message: string;
}

export interface PoolSnapshot {
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
  updated?: { nodes?: Record<string, NodeCells>; jobs?: Record<string, LiveJob>; projects?: Record<string, LiveProject> };
  removed?: { nodes?: string[]; jobs?: string[]; projects?: string[] };
  queue?: string[];
  classes?: ClassRow[];
  events?: EventLine[];
}

/** Per device: utilisation in percent, bytes of memory used, bytes in total; null: unknown, or not allocated. */
export interface NodeTelemetry {
  at: string;
  devices: [number | null, number | null, number | null][];
}

/** Availability of Kafka and the archive, as the console sees it. */
export interface ConsoleState {
  kafka: boolean;
  archive: boolean;
  behind_s: number;
}
