// One decision as the console tells it: the record's own data (docs/events), and the pool around it.
import type { LiveJob, NodeCells } from "../../live/shapes";
import type { Section } from "../../ui/Sections";
import type { Cost, Explanation } from "../job/shapes";

export interface Share {
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
  moved?: Share[];
}

export interface Asker {
  job: string;
  class_name: string;
  priority: number;
  project?: string;
  base_priority?: number | null;
}

/** What the record holds. Fields that have their default are left out. */
export interface Data {
  asker?: Asker;
  job?: string;
  request?: number;
  verb?: string;
  victims?: Victim[];
  placement?: Share[];
  reason?: string;
  cause?: string;
  would_need?: string;
  explanation?: Explanation;
  dropped?: string[];
  spared?: string[];
  tasks?: string;
  attempt?: number;
  retry_at?: number | null;
}

export interface Candidate {
  verb: string;
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

/** The nodes and jobs concerned, before and after. */
export interface Around {
  nodes?: Record<string, NodeCells>;
  jobs?: Record<string, LiveJob>;
}

/** `/api/pools/{pool}/decisions/{seq}` */
export interface DecisionTold {
  seq: number;
  time: string;
  type: string;
  verb: string | null;
  /** null: a type of a later release. */
  decision: Data | null;
  candidates: Candidate[] | null;
  no_candidates_because: string | null;
  sections: Section[];
  before: Around | null;
  after: Around | null;
}

export type { Cost, Explanation };
