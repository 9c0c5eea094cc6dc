import { now } from "../lib/clock";
import { duration, moment } from "../lib/words";

/** `3 min ago`, or `in 20 s`; the moment itself as title. */
export function Ago({ at }: { at: string }) {
  const seconds = (now.value - Date.parse(at)) / 1000;
  return (
    <time dateTime={at} title={moment(at)}>
      {seconds >= 0 ? `${duration(seconds)} ago` : `in ${duration(-seconds)}`}
    </time>
  );
}

/** How long it has been, `3 min`, counting. */
export function Since({ at }: { at: string }) {
  return (
    <time dateTime={at} title={`since ${moment(at)}`} class="number">
      {duration((now.value - Date.parse(at)) / 1000)}
    </time>
  );
}
