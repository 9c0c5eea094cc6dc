import { post, poolPath, type ErrorDetail } from "../lib/api";

/** The body of a request: its kind and the fields of the client's message. */
export type RequestBody = { kind: string } & Record<string, unknown>;

/** Admission's response. accepted null: none yet; the request is in Kafka. */
export interface RequestOutcome {
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
  effect: string;
  to: string[];
  tasks: string;
  gpus: string;
  grace_s: number;
  lost_gpu_ms: number;
}

export interface Preview {
  sentences: string[];
  affected: Affected[];
  errors: ErrorDetail[];
}

/** A new idempotency key: requests with the same id are processed once. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16)); // randomUUID is only there over TLS and on loopback
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export const preview = (pool: string, request: RequestBody): Promise<Preview> => post(poolPath(pool, "preview"), request);

export const send = (pool: string, id: string, request: RequestBody): Promise<RequestOutcome> => post(poolPath(pool, "requests"), { ...request, id });

/** The fields without empty values, so that the server's defaults apply. */
export function withoutEmpty(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== "" && value !== null && value !== undefined));
}
