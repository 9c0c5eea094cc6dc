import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { poolPath, post, postStream, toApiError, type ApiError, type JobPage } from "../../api";
import type { Span } from "../../lib/ansiSpans";
import { Button, Card, ErrorMessage, Select } from "../../ui";
import { mayHaveTerminal } from "./jobTerminal";
import { keyText, pasteText } from "./shellKeys";
import type { ShellScreen } from "./shellScreen";

const MOST_TYPED = 4_000; // characters in one request
const [ROW, COLUMN] = [17, 7.8]; // pixels, until they are measured
type Kind = "shell" | "terminal";

/** A shell beside a running task, or its terminal. */
export function JobShell({ pool, job, details }: { pool: string; job: string; details: JobPage }) {
  const running = details.task_list.filter((task) => task.state === "running");
  const task = useSignal(0);
  const opened = useSignal<{ kind: Kind; task: number } | null>(null);
  const chosen = running.find((each) => Number(each.task) === task.value) ?? running[0];
  if (opened.value) return <OpenShell pool={pool} job={job} {...opened.value} leave={() => (opened.value = null)} />;
  if (!chosen) return <Card title="Shell"><p class="soft">No task of {job} runs now.</p></Card>;
  const open = (kind: Kind) => () => (opened.value = { kind, task: Number(chosen.task) });
  return (
    <Card title="Shell">
      <p class="shell-about">
        A shell beside the running task: as its user, with its GPUs, folder and environment. It is on record that you opened it, not what you type. It ends when you
        leave this tab, and with the task.
      </p>
      <div class="row log-tools">
        {running.length > 1 && <Select label="Task" value={String(chosen.task)} options={running.map((each) => [String(each.task), `${each.task} on ${each.node}`])} onChange={(next) => (task.value = Number(next))} />}
        <Button primary onClick={open("shell")}>Open a shell</Button>
        {mayHaveTerminal(details) && <Button onClick={open("terminal")}>Attach to its terminal</Button>}
        <span class="soft">{mayHaveTerminal(details) ? "A job submitted with --tty or --interactive has one." : "It has no terminal: it was submitted without --tty or --interactive, or runs in a pod."}</span>
      </div>
    </Card>
  );
}

function OpenShell({ pool, job, kind, task, leave }: { pool: string; job: string; kind: Kind; task: number; leave: () => void }) {
  const screen = useRef<ShellScreen | null>(null);
  const type = useRef<(text: string) => void>(() => undefined);
  const box = useRef<HTMLPreElement>(null);
  const lines = useSignal<Span[][]>([]);
  const ended = useSignal<string | ApiError | null>(null);
  const connected = useSignal(false);

  useEffect(() => {
    const left = new AbortController();
    let [id, typed, sending] = ["", "", false];
    const send = async (body: object): Promise<void> => {
      try {
        await post(`/api/shells/${id}`, body);
      } catch {
        typed = ""; // the stream says why
      }
    };
    type.current = (text) => {
      typed += text;
      if (sending || !id) return;
      sending = true;
      void (async () => {
        while (typed && !left.signal.aborted) {
          const now = typed.slice(0, MOST_TYPED);
          typed = typed.slice(MOST_TYPED);
          await send({ data: now });
        }
        sending = false;
      })();
    };
    let drawing = 0;
    const draw = (): void => {
      drawing ||= requestAnimationFrame(() => {
        drawing = 0;
        lines.value = screen.current?.lines() ?? [];
      });
    };
    const size = (): { rows: number; columns: number } => {
      const { clientWidth, clientHeight } = box.current!;
      return { rows: Math.max(5, Math.floor((clientHeight - 16) / ROW)), columns: Math.min(400, Math.max(20, Math.floor((clientWidth - 16) / COLUMN))) };
    };
    let shown = size();
    const seen = new ResizeObserver(() => {
      if (!box.current) return; // it has just left the page
      const next = size();
      if (next.rows === shown.rows && next.columns === shown.columns) return;
      shown = next;
      screen.current?.resize(next);
      draw();
      if (id) void send(next);
    });
    seen.observe(box.current!);
    const take = async (name: string, data: unknown): Promise<void> => {
      if (name === "opened") {
        id = String(data);
        connected.value = true;
        box.current?.focus();
      } else if (name === "output") await screen.current!.write(Uint8Array.from(atob(String(data)), (each) => each.charCodeAt(0)));
      else if (name === "skipped") await screen.current!.write(new TextEncoder().encode(`\r\n[${Number(data)} bytes of output were left out]\r\n`));
      else if (name === "ended") ended.value = String(data);
      draw();
    };
    void (async () => {
      try {
        const { ShellScreen } = await import("./shellScreen");
        if (left.signal.aborted) return;
        screen.current = new ShellScreen(shown, (text) => type.current(text));
        await postStream(poolPath(pool, "jobs", job, "shell"), { task, terminal: kind === "terminal", ...shown }, take, left.signal);
        ended.value ??= "The connection to the console has ended.";
      } catch (problem) {
        if (!left.signal.aborted) ended.value = toApiError(problem);
      }
    })();
    return () => {
      left.abort();
      cancelAnimationFrame(drawing);
      seen.disconnect();
      screen.current?.close();
    };
  }, []);

  const onKey = (event: KeyboardEvent): void => {
    const text = ended.value === null ? keyText(event, screen.current?.modes.applicationCursorKeysMode) : null;
    if (text === null) return;
    event.preventDefault();
    event.stopPropagation(); // no shortcut of the page
    type.current(text);
  };
  return (
    <Card title={kind === "shell" ? `Shell beside task ${task}` : `Terminal of task ${task}`} aside={<Button onClick={leave}>{ended.value === null ? "Close" : "Back"}</Button>}>
      {ended.value instanceof Error ? <ErrorMessage error={ended.value} /> : <p class="soft note" role="status">{ended.value ?? (connected.value ? "Connected. Shift+Tab leaves the terminal." : "Connecting…")}</p>}
      <pre
        ref={box}
        class="shell-screen mono"
        hidden={ended.value instanceof Error}
        tabIndex={0}
        role="textbox"
        aria-multiline="true"
        aria-label={`${kind === "shell" ? "Shell" : "Terminal"} of ${job}`}
        onKeyDown={onKey}
        onPaste={(event) => {
          event.preventDefault();
          if (ended.value === null) type.current(pasteText(event.clipboardData?.getData("text/plain") ?? "", screen.current?.modes.bracketedPasteMode ?? false));
        }}
        onWheel={(event) => {
          screen.current?.scroll(Math.sign(event.deltaY) * 3);
          lines.value = screen.current?.lines() ?? [];
          event.preventDefault();
        }}
      >
        {lines.value.map((spans, row) => (
          <div key={row}>{spans.length ? spans.map((span, at) => <span key={at} class={span.classes}>{span.text}</span>) : " "}</div>
        ))}
      </pre>
    </Card>
  );
}
