import { ApiError } from "../lib/api";
import { capital } from "../lib/format";
import type { LivePool } from "../live/livePool";
import { ErrorMessage } from "./ErrorMessage";
import { Loading } from "./Loading";

/** Shown by a page until the pool's state has been received. what: e.g. `the queue`. */
export function PoolStatePending({ title, what, live }: { title: string; what: string; live: LivePool }) {
  return (
    <div class="page">
      <h1>{title}</h1>
      {live.connection.value === "lost" ? (
        <ErrorMessage error={new ApiError(0, `${capital(what)} cannot be shown`, "The console does not send the pool's state. Retrying every few seconds.")} />
      ) : (
        <Loading what={`${what} of ${live.pool}`} />
      )}
    </div>
  );
}
