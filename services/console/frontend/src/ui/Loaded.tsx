import type { ComponentChildren } from "preact";

import type { ApiError } from "../api";
import { ErrorMessage } from "./ErrorMessage";
import { Loading } from "./Loading";

/** What was fetched; until then that it loads, or why it cannot be shown. */
export function Loaded<T>({ of, what, retry, children }: { of: { value: T | null | undefined; failure: ApiError | null | undefined }; what: string; retry?: () => void; children: (value: T) => ComponentChildren }) {
  if (of.value != null) return <>{children(of.value)}</>;
  return of.failure ? <ErrorMessage error={of.failure} {...(retry && { retry })} /> : <Loading what={what} />;
}
