import { duration, moment, now } from "../lib";

/** `3m20s ago` or `in 20s`; the timestamp as tooltip. */
export function RelativeTime({ at }: { at: string }) {
  const seconds = Math.trunc((now.value - Date.parse(at)) / 1000);
  return (
    <time dateTime={at} title={moment(at)}>
      {seconds >= 0 ? `${duration(seconds)} ago` : `in ${duration(-seconds)}`}
    </time>
  );
}

/** The time elapsed since, `3m20s`, updated every second. */
export function Elapsed({ at }: { at: string }) {
  return (
    <time dateTime={at} title={`since ${moment(at)}`} class="number">
      {duration(Math.floor((now.value - Date.parse(at)) / 1000))}
    </time>
  );
}
