import { post, poolPath, type Fault } from "../lib/api";

/** A request's body: kind and the fields of the client's message. */
export type Asked = { kind: string } & Record<string, unknown>;

/** accepted null: admission has not answered yet; the request is in Kafka. */
export interface Answer {
  id: string;
  accepted: boolean | null;
  seq: number | null;
  code: string;
  reason: string;
  job: string | null;
}

export interface Affected {
  job: string;
  priority_class: string;
  priority: number;
  what: string;
  to: string[];
  tasks: string;
  gpus: string;
  grace_s: number;
  lost_gpu_ms: number;
}

export interface Preview {
  sentences: string[];
  affected: Affected[];
  faults: Fault[];
}

/** A request's own id: whoever sends it twice with the same one has asked once. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16)); // randomUUID is only there over TLS and on loopback
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export const preview = (pool: string, asked: Asked): Promise<Preview> => post(poolPath(pool, "preview"), asked);

export const send = (pool: string, id: string, asked: Asked): Promise<Answer> => post(poolPath(pool, "requests"), { ...asked, id });

/** A body without what was left empty: the server's own defaults hold. */
export function filled(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== "" && value !== null && value !== undefined));
}
