import { poolPath, post, type PreviewAnswer, type RequestOutcome } from "../api";

/** The body of a request: its kind and the fields of the client's message. */
export type RequestBody = { kind: string } & Record<string, unknown>;

/** A new idempotency key: requests with the same id are processed once. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16)); // randomUUID is only there over TLS and on loopback
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export const preview = (pool: string, request: RequestBody): Promise<PreviewAnswer> => post(poolPath(pool, "preview"), request);

export const send = (pool: string, id: string, request: RequestBody): Promise<RequestOutcome> => post(poolPath(pool, "requests"), { ...request, id });

/** The fields without empty values, so that the server's defaults apply. */
export function withoutEmpty(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== "" && value !== null && value !== undefined));
}
