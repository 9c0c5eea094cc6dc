// One way to ask the server. What goes wrong becomes a `Refusal`, which `ui/Failure` shows.

export interface Fault {
  where?: string;
  field?: string;
  line?: number;
  column?: number;
  found?: string;
  allowed?: string;
  text: string;
}

/** What the server would not or could not do. status 0: it did not answer. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly faults: Fault[] = [],
  ) {
    super(detail || title);
  }
}

/** Whatever was thrown, as something that can be shown. */
export const asRefusal = (failure: unknown): Refusal =>
  failure instanceof Refusal ? failure : new Refusal(0, "Something went wrong in this page", String(failure));

let csrf = "";

/** The token of `/api/me`, sent with everything that asks for something to be done. */
export function keepCsrf(token: string): void {
  csrf = token;
}

async function ask<T>(path: string, init: RequestInit): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(path, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Refusal(0, "The console does not answer", "Is it running, and is this machine connected to it?");
  }
  if (answer.ok) return (answer.status === 204 ? undefined : await answer.json()) as T;
  if (answer.status === 401) {
    location.assign(`/auth/sign-in?to=${encodeURIComponent(location.pathname + location.search)}`);
  }
  const said = await answer.json().catch(() => ({}));
  throw new Refusal(answer.status, said.title ?? `Status ${answer.status}`, said.detail ?? "", said.faults ?? []);
}

export const get = <T>(path: string, signal?: AbortSignal): Promise<T> =>
  ask<T>(path, { headers: { accept: "application/json" }, ...(signal ? { signal } : {}) });

const send = <T>(method: string, path: string, body?: unknown): Promise<T> =>
  ask<T>(path, {
    method,
    headers: { "content-type": "application/json", "x-csrf-token": csrf },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });

export const post = <T>(path: string, body: unknown): Promise<T> => send<T>("POST", path, body);
export const remove = <T>(path: string): Promise<T> => send<T>("DELETE", path);

/** A part of a list of the query interface; next: the cursor of what follows, null: nothing does. */
export interface Page<T> {
  items: T[];
  next: string | null;
}

/** `/api/pools/{pool}/…` with each part encoded. */
export const poolPath = (pool: string, ...parts: (string | number)[]): string =>
  ["/api/pools", pool, ...parts].map((part, at) => (at ? encodeURIComponent(part) : part)).join("/");

/** A path of the query interface, `/v1/domains/{pool}/…`, through the console. */
export const archivePath = (pool: string, rest: string): string => `/api/archive/domains/${encodeURIComponent(pool)}/${rest}`;
