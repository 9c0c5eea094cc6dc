import { Refusal } from "../lib/api";
import { capital } from "../lib/words";
import type { Live } from "../live/live";
import { Failure } from "./Failure";
import { Loading } from "./Loading";

/** A page before the first state of its pool has come. what: `the queue`. */
export function NoBoard({ title, what, live }: { title: string; what: string; live: Live }) {
  return (
    <div class="page">
      <h1>{title}</h1>
      {live.connection.value === "lost" ? (
        <Failure refusal={new Refusal(0, `${capital(what)} cannot be shown`, "The console does not send its state. It is asked again every few seconds.")} />
      ) : (
        <Loading what={`${what} of ${live.pool}`} />
      )}
    </div>
  );
}
