import { ApiError } from "../api";
import { capital } from "../lib";
import { ErrorMessage, Loading } from "../ui";
import type { LivePool } from "./livePool";

/** Shown by a page until the pool's state has been received. what: e.g. `the queue`. */
export function PoolStatePending({ title, what, live }: { title: string; what: string; live: LivePool }) {
  return (
    <div class="stack page">
      <h1>{title}</h1>
      {live.connection.value === "lost" ? (
        <ErrorMessage error={new ApiError(0, `${capital(what)} cannot be shown`, "The console does not send the pool's state. Retrying every few seconds.")} />
      ) : (
        <Loading what={`${what} of ${live.pool}`} />
      )}
    </div>
  );
}
