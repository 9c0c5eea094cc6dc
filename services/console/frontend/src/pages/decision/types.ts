// Types of the console's response about a decision: the record's data (docs/events) and the affected part of the pool.
import type { LiveJob, NodeCells } from "../../live/types";
import type { Section } from "../../ui/ExplanationSections";
import type { Cost, Explanation } from "../job/types";

export interface Assignment {
  node: number;
  tasks: string;
  devices?: string;
}

export interface Victim {
  job: string;
  attempt: number;
  priority: number;
  gpus: number;
  lost_gpu_ms: number;
  reserved?: boolean;
  class_name?: string;
  project?: string;
  tasks?: string;
  moved_to?: Assignment[];
}

export interface Preemptor {
  job: string;
  class_name: string;
  priority: number;
  project?: string;
  base_priority?: number | null;
}

/** The record's data. Fields with their default value are absent. */
export interface DecisionData {
  preemptor?: Preemptor;
  job?: string;
  request?: number;
  action?: string;
  victims?: Victim[];
  placement?: Assignment[];
  reason?: string;
  cause?: string;
  would_need?: string;
  explanation?: Explanation;
  unneeded_victims?: string[];
  cancelled_evictions?: string[];
  tasks?: string;
  attempt?: number;
  retry_at?: number | null;
}

export interface Candidate {
  action: string;
  job: string;
  tasks: string;
  class_name: string;
  priority: number;
  project: string;
  gpu_milli: number;
  lost_gpu_ms: number;
  rule: string;
  chosen: boolean;
}

/** The affected nodes and jobs at one point in time. */
export interface PoolExcerpt {
  nodes?: Record<string, NodeCells>;
  jobs?: Record<string, LiveJob>;
}

/** `/api/pools/{pool}/decisions/{seq}` */
export interface DecisionResponse {
  seq: number;
  time: string;
  type: string;
  action: string | null;
  /** null: a record type of a later release. */
  decision: DecisionData | null;
  candidates: Candidate[] | null;
  no_candidates_reason: string | null;
  sections: Section[];
  before: PoolExcerpt | null;
  after: PoolExcerpt | null;
}

export type { Cost, Explanation };
