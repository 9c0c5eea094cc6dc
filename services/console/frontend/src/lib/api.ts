// The HTTP client. Every error becomes an `ApiError`, which `ui/ErrorMessage` shows.

/** One invalid value of a request. location: the parameter or field; line: of a submitted document. */
export interface ErrorDetail {
  location?: string;
  detail: string;
  line?: number;
  column?: number;
  found?: string;
  allowed?: string;
}

/** An error response of the server. status 0: no response. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly errors: ErrorDetail[] = [],
  ) {
    super(detail || title);
  }
}

/** Any thrown value as an `ApiError`. */
export const toApiError = (failure: unknown): ApiError =>
  failure instanceof ApiError ? failure : new ApiError(0, "Unexpected error in this page", String(failure));

let csrf = "";

/** Stores the CSRF token of `/api/me`, which is sent with every POST and DELETE. */
export function setCsrfToken(token: string): void {
  csrf = token;
}

async function request<T>(path: string, init: RequestInit): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError(0, "The console does not respond", "Check that it is running and reachable from this machine.");
  }
  if (response.ok) return (response.status === 204 ? undefined : await response.json()) as T;
  if (response.status === 401) {
    location.assign(`/auth/sign-in?to=${encodeURIComponent(location.pathname + location.search)}`);
  }
  const body = await response.json().catch(() => ({}));
  throw new ApiError(response.status, body.title ?? `Status ${response.status}`, body.detail ?? "", body.errors ?? []);
}

export const get = <T>(path: string, signal?: AbortSignal): Promise<T> =>
  request<T>(path, { headers: { accept: "application/json" }, ...(signal ? { signal } : {}) });

const send = <T>(method: string, path: string, body?: unknown): Promise<T> =>
  request<T>(path, {
    method,
    headers: { "content-type": "application/json", "x-csrf-token": csrf },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });

export const post = <T>(path: string, body: unknown): Promise<T> => send<T>("POST", path, body);
export const remove = <T>(path: string): Promise<T> => send<T>("DELETE", path);

/** A page of a list of the query API; next: cursor of the next page, null: this is the last. */
export interface Page<T> {
  items: T[];
  next: string | null;
}

/** `/api/pools/{pool}/…` with each part encoded. */
export const poolPath = (pool: string, ...parts: (string | number)[]): string =>
  ["/api/pools", pool, ...parts].map((part, at) => (at ? encodeURIComponent(part) : part)).join("/");

/** A path of the query API, `/v1/pools/{pool}/…`, through the console's proxy. */
export const archivePath = (pool: string, rest: string): string => `/api/archive/pools/${encodeURIComponent(pool)}/${rest}`;
