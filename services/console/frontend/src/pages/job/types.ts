// Types of the responses of the archive and the console about one job (docs/schemas/api.json; bailiff.render.serializers).

export interface Attempt {
  job: string;
  submitted_seq: number;
  attempt: number;
  action: string | null;
  nodes: string[];
  placed_seq: number | null;
  placed_at: string | null;
  started_at: string | null;
  ended_at: string | null;
  ended_seq: number | null;
  ran_s: number | null;
  outcome: string | null;
  cause: string | null;
  lost_gpu_hours: number | null;
}

export interface Excluded {
  rule: string;
  jobs: number;
  examples?: string[];
}

export interface Cost {
  classes?: { priority: number; gpu_milli: number }[];
  under_share_gpu_milli?: number;
  lost_gpu_ms?: number;
  jobs_stopped?: number;
  tasks?: number;
  fragmented_nodes?: number;
}

export interface Explanation {
  candidates?: number;
  excluded?: Excluded[];
  steps?: number;
  proven?: boolean;
  runner_up?: string[];
  runner_up_lost_gpu_ms?: number;
  cost?: Cost | null;
  lower_bound?: Cost | null;
  runner_up_cost?: Cost | null;
  attempted_actions?: { action: string; refused: string; would_need?: string; candidates?: number; excluded?: Excluded[] }[];
}

export interface Eviction {
  decided_seq: number;
  decided_at: string;
  job: string;
  submitted_seq: number | null;
  attempt: number | null;
  tasks: string | null;
  project: string | null;
  priority_class: string | null;
  cause: string | null;
  action: string | null;
  for_job: string | null;
  for_class: string | null;
  for_priority: number | null;
  reason: string | null;
  gpus: number | null;
  lost_gpu_hours: number | null;
  cost: Cost | null;
  explanation: Explanation | null;
  stages: Record<string, string>;
  until_released_s: number | null;
  until_resumed_s: number | null;
  outcome: string | null;
}

/** `/api/archive/pools/{pool}/jobs/{job}` */
export interface JobHistory {
  job: string;
  submitted_seq: number;
  project: string | null;
  user: string | null;
  user_verified: boolean | null;
  priority_class: string | null;
  tasks: number | null;
  gpus: number | null;
  state: string;
  attempt: number | null;
  submitted_at: string;
  first_started_at: string | null;
  waited_s: number | null;
  ended_at: string | null;
  ended_seq: number | null;
  outcome: string | null;
  reason: string | null;
  pending_reason: string | null;
  attempts: Attempt[];
  evictions: Eviction[];
}

/** `/api/pools/{pool}/jobs/{job}` (render.serializers.jobs.JobDetails). */
/** Who is or was attached. port: null: to the terminal. */
export interface Attachment {
  seq: number;
  user: string;
  user_verified: boolean;
  task: number;
  port: number | null;
  granted_at: string | null;
  started_at: string | null;
  ended_at: string | null;
  reason: string | null;
}

export interface JobDetails {
  summary: {
    job: string;
    project: string;
    priority_class: string;
    priority: number;
    state: string;
    gpus_text: string;
    tasks: number;
    nodes: string[];
    attempt: number;
    evictions: number;
    submitted_at: string | null;
    started_at: string | null;
    ended_at: string | null;
    note: string;
  };
  demand: string;
  request: { ports?: number[] };
  attachments: Attachment[];
  labels: Record<string, string>;
  spec_digest: string;
  submitted_seq: number;
  owner: string;
  owner_verified: boolean;
  signed_by: string;
  reserved_until: string | null;
  victims: string[];
  task_list: TaskRow[];
  pending_reason: string;
  events: string[];
}

export interface TaskRow {
  task: number;
  node: string;
  devices: number[];
  state: string;
  exit_code: number | null;
  started_at: string | null;
  stage: string;
  step: number | null;
  checkpoint_step: number | null;
  checkpoint_at: string | null;
}

/** A record of the archive. */
export interface RecordItem {
  seq: number;
  time: string;
  type: string;
  kind: string;
  cycle: number;
  epoch: number;
  job: string | null;
  actor: string | null;
  hash: string;
  data: Record<string, unknown>;
  /** Title and text as in the live stream; absent for records of another release. */
  event?: string;
  message?: string;
}
