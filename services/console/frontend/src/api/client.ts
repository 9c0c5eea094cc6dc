// The HTTP client. Every error becomes an `ApiError`, which `ui/ErrorMessage` shows.
import type { ErrorDetail } from ".";

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

async function answered(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError(0, "The console does not respond", "Check that it is running and reachable from this machine.");
  }
  if (response.ok) return response;
  if (response.status === 401) {
    location.assign(`/auth/sign-in?to=${encodeURIComponent(location.pathname + location.search)}`);
  }
  const body = await response.json().catch(() => ({}));
  throw new ApiError(response.status, body.title ?? `Status ${response.status}`, body.detail ?? "", body.errors ?? []);
}

async function request<T>(path: string, init: RequestInit): Promise<T> {
  const response = await answered(path, init);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

export const get = <T>(path: string, signal?: AbortSignal): Promise<T> =>
  request<T>(path, { headers: { accept: "application/json" }, ...(signal ? { signal } : {}) });

const change = (method: string, body?: unknown): RequestInit => ({
  method,
  headers: { "content-type": "application/json", "x-csrf-token": csrf },
  ...(body === undefined ? {} : { body: JSON.stringify(body) }),
});

export const post = <T>(path: string, body: unknown): Promise<T> => request<T>(path, change("POST", body));
export const remove = <T>(path: string): Promise<T> => request<T>(path, change("DELETE"));

/** Posts, and calls `take` with each event of the answer, one after the other: a slow page is waited for. */
export async function postStream(path: string, body: unknown, take: (name: string, data: unknown) => Promise<void>, signal: AbortSignal): Promise<void> {
  const reader = (await answered(path, { ...change("POST", body), signal })).body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop()!;
    for (const block of blocks) {
      const found = /^event: (\w+)\ndata: (.*)$/s.exec(block);
      if (found) await take(found[1]!, JSON.parse(found[2]!));
    }
  }
}

/** `/api/pools/{pool}/…` with each part encoded. */
export const poolPath = (pool: string, ...parts: (string | number)[]): string =>
  ["/api/pools", pool, ...parts].map((part, at) => (at ? encodeURIComponent(part) : part)).join("/");

/** A path of the query API, `/v1/pools/{pool}/…`, through the console's proxy; without rest: of the pool itself. */
export const archivePath = (pool: string, rest = ""): string => `/api/archive/pools/${encodeURIComponent(pool)}${rest && `/${rest}`}`;
