import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";

import type { Permissions } from "../../actions/allowedActions";
import { poolPath, useFetch, type OutputLine } from "../../api";
import { count, moment } from "../../lib";
import { Button, Card, Select } from "../../ui";
import { LINES_KEPT, LogLines, type LogLine } from "./logLines";
import { LogTools } from "./LogTools";

const DRAWN = 500; // rendering more lines at a time is slow
const DRAW_EVERY_MS = 250;
type State = "opening" | "open" | "lost" | "none";

/** The job's log, or why the policy does not permit this user to read it. */
export function JobLogs({ pool, job, live }: { pool: string; job: string; live: boolean }) {
  const denied = useFetch<Permissions>(poolPath(pool, "jobs", job, "permissions"), job).value.value?.logs;
  if (!denied) return <LogStream pool={pool} job={job} live={live} />;
  return (
    <Card title="Log">
      <p class="soft">{denied}</p>
    </Card>
  );
}

/** The log, streamed. Of what a program prints, text and colours are shown. */
function LogStream({ pool, job, live }: { pool: string; job: string; live: boolean }) {
  const lines = useMemo(() => new LogLines(), [pool, job]);
  const shown = useSignal<LogLine[]>([]);
  const state = useSignal<State>("opening");
  const said = useSignal("");
  const task = useSignal<number | null>(null);
  const pausedAt = useSignal<number | null>(null);
  const follow = useSignal(true);
  const search = useSignal("");
  const wrap = useSignal(true);
  const box = useRef<HTMLDivElement>(null);

  useEffect(() => {
    let [source, fresh, tries]: [EventSource | null, boolean, number] = [null, true, 0];
    let again: ReturnType<typeof setTimeout> | undefined;
    const shut = (): void => {
      clearTimeout(again);
      source?.close();
      source = null;
    };
    const take = (event: MessageEvent): void => {
      try {
        const sent = JSON.parse(event.data) as OutputLine | OutputLine[];
        (Array.isArray(sent) ? sent : [sent]).forEach((line) => lines.add(line));
        fresh = true;
      } catch {
        lines.add({ text: String(event.data) });
      }
    };
    const open = (): void => {
      shut();
      if (document.hidden) return;
      source = new EventSource(poolPath(pool, "logs", job));
      ["message", "line", "lines"].forEach((name) => source!.addEventListener(name, take));
      source.addEventListener("note", (event) => (said.value = String(JSON.parse(event.data).text ?? "")));
      source.onopen = () => {
        lines.clear(); // a new stream repeats the retained lines
        fresh = true;
        tries = 0;
        state.value = "open";
      };
      source.onerror = () => {
        shut();
        tries += 1;
        state.value = tries > 3 ? "none" : "lost";
        if (tries <= 3) again = setTimeout(open, 2_000 * tries);
      };
    };
    const seen = (): void => (document.hidden ? shut() : open());
    const drawing = setInterval(() => {
      if (!fresh || pausedAt.peek() !== null || !follow.peek()) return; // keep the position of a user who has scrolled up
      fresh = false;
      shown.value = lines.shown(DRAWN, task.peek(), Infinity, search.peek());
    }, DRAW_EVERY_MS);
    open();
    document.addEventListener("visibilitychange", seen);
    return () => {
      document.removeEventListener("visibilitychange", seen);
      clearInterval(drawing);
      shut();
    };
  }, [pool, job]);

  useEffect(() => {
    shown.value = lines.shown(DRAWN, task.value, pausedAt.value ?? Infinity, search.value);
  }, [task.value, pausedAt.value, search.value]);

  useLayoutEffect(() => {
    if (follow.peek() && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [shown.value]);

  const onScroll = (): void => {
    const at = box.current!;
    follow.value = at.scrollHeight - at.scrollTop - at.clientHeight < 40;
  };
  const toEnd = (): void => {
    follow.value = true;
    shown.value = lines.shown(DRAWN, task.value, pausedAt.value ?? Infinity, search.value);
  };
  const waiting = pausedAt.value === null ? 0 : lines.count - pausedAt.value;
  const aside = (
    <span class="row log-tools">
      {lines.tasks.size > 1 && (
        <Select label="Task" value={String(task.value ?? "")} options={[["", "All tasks"], ...[...lines.tasks].sort((left, right) => left - right).map((each): [string, string] => [String(each), `Task ${each}`])]} onChange={(next) => (task.value = next === "" ? null : Number(next))} />
      )}
      <LogTools search={search} wrap={wrap} name={job} lines={() => lines.shown(LINES_KEPT, task.value, Infinity, search.value)} />
      {!follow.value && <Button onClick={toEnd}>Jump to end</Button>}
      <Button onClick={() => (pausedAt.value = pausedAt.value === null ? lines.count : null)}>{pausedAt.value === null ? "Pause" : "Resume"}</Button>
    </span>
  );
  return (
    <Card title="Log" aside={aside}>
      <div class={wrap.value ? "well log" : "well log log-unwrapped"} ref={box} onScroll={onScroll} tabIndex={0} role="log" aria-live="off" aria-label={`Log of ${job}`}>
        {shown.value.map((line) => (
          <div key={line.number} class="log-line">
            <span class="log-at" title={line.at ? moment(line.at) : ""}>
              {line.at && moment(line.at).slice(11, 19)}
              {lines.tasks.size > 1 && ` ${line.task}`}
            </span>
            <span class="log-text">{line.spans?.map((span, at) => (<span key={at} class={span.classes}>{span.text}</span>)) ?? line.text}</span>
          </div>
        ))}
        {!shown.value.length && <p class="soft">{search.value && lines.count > 0 ? "No line contains this." : emptyWords(state.value, live)}</p>}
      </div>
      <p class="soft note" role="status">
        {state.value === "lost" && "Connection lost; reconnecting. "}
        {state.value === "none" && shown.value.length > 0 && "Connection lost. "}
        {pausedAt.value !== null && `Paused${waiting > 0 ? `; ${count(waiting, "line")} since` : ""}. `}
        {lines.count > 0 && `${count(lines.count, "line")}${lines.dropped ? `, the newest ${LINES_KEPT.toLocaleString("en")} kept` : ""}${shown.value.length === DRAWN ? `, the newest ${DRAWN} shown` : ""}. `}
        Kafka retains log lines for one day. {said.value}
      </p>
    </Card>
  );
}

function emptyWords(state: State, live: boolean): string {
  if (state === "opening") return "Loading the log…";
  if (state === "none" || state === "lost") return "The log is unavailable.";
  return live ? "No output yet, or none in the last day." : "The log is no longer retained.";
}
