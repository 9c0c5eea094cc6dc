// Test rows with default values.
import type { Amounts, Cell, LiveJob, LiveProject, LiveNode } from "../api";

export const FREE: Cell = ["free", null, null, [], null];
export const allocated = (job: string, then: string | null = null): Cell => ["allocated", job, then, [], null];
export const releasing = (job: string, then: string | null = null): Cell => ["releasing", job, then, [], null];

export function aNode(name: string, devices: Cell[], more: Partial<LiveNode> = {}): LiveNode {
  return {
    node: name,
    number: 0,
    state: "ready",
    drain: null,
    gpus: devices.length,
    devices,
    kinds: null,
    gpu_models: ["H100-80GB"],
    machine_id: "machine",
    cpu_milli: 64_000,
    cpu_milli_free: 64_000,
    memory_bytes: 1024 ** 4,
    memory_bytes_free: 1024 ** 4,
    labels: {},
    ...more,
  };
}

export function aJob(name: string, more: Partial<LiveJob> = {}): LiveJob {
  return {
    job: name,
    project: "research",
    priority_class: "train",
    priority: 75,
    preemptible: true,
    state: "running",
    gpus: 4,
    gpus_text: "4",
    placed_tasks: 1,
    tasks: 1,
    min_tasks: 1,
    nodes: [],
    reserved_nodes: [],
    attempt: 1,
    evictions: 0,
    submitted_at: "2026-01-01T00:00:00Z",
    started_at: "2026-01-01T00:00:00Z",
    pending_since: null,
    believed: "",
    note: "",
    pending_reason: null,
    submitted_seq: 0,
    ended_at: null,
    labels: {},
    base_priority: 75,
    placed_gpus_text: "",
    failures: 0,
    pending_reason_at: null,
    pending_reason_seq: null,
    pending_rule: null,
    user: "",
    user_verified: false,
    step: null,
    checkpoint_step: null,
    checkpoint_at: null,
    eviction: null,
    restart_estimate: null,
    ...more,
  };
}

const gpus = (many: number | null): Amounts => ({ gpus: many, cpu_milli: null, memory_bytes: null });

export function aProject(name: string, used: number, quota: number | null, fair: number, more: Partial<LiveProject> = {}): LiveProject {
  return {
    project: name,
    parent: null,
    depth: 0,
    description: "",
    priority: 0,
    weight: {},
    used: gpus(used),
    non_preemptible: gpus(0),
    requested: gpus(used),
    quota: gpus(quota),
    quota_in_force: gpus(quota),
    limit: gpus(null),
    fair_share: gpus(fair),
    past_use: gpus(0),
    borrowed: gpus(quota === null ? 0 : Math.max(0, used - quota)),
    usage_text: "",
    jobs_running: 0,
    jobs_pending: 0,
    evictions_suffered: 0,
    evictions_caused: 0,
    gpu_hours_lost: 0,
    kinds: [],
    ...more,
  };
}

export const named = <T>(rows: T[], name: (row: T) => string): Map<string, T> => new Map(rows.map((row) => [name(row), row]));
export const jobMap = (...rows: LiveJob[]): Map<string, LiveJob> => named(rows, (row) => row.job);
export const projectMap = (...rows: LiveProject[]): Map<string, LiveProject> => named(rows, (row) => row.project);
