// The newest lines of a job's log, in a bounded buffer.
import type { OutputLine } from "../../api";
import { ansiSpans, sanitizeLine, type Span } from "../../lib";

export interface LogLine {
  number: number;
  task: number;
  attempt: number;
  at: string | null;
  text: string;
  spans: Span[] | null; // with its colours, if it has any
}

export const LINES_KEPT = 5_000;

/** A bounded buffer of the newest lines; `dropped` counts the discarded ones. */
export class LogLines {
  private lines: LogLine[] = [];
  private next = 0;
  readonly tasks = new Set<number>();

  constructor(private readonly most = LINES_KEPT) {}

  add(sent: Partial<OutputLine>): void {
    const task = Number(sent.task ?? 0);
    this.tasks.add(task);
    const text = String(sent.text ?? "");
    this.lines.push({ number: this.next, task, attempt: Number(sent.attempt ?? 0), at: sent.at ?? null, text: sanitizeLine(text), spans: ansiSpans(text) });
    this.next += 1;
    if (this.lines.length > this.most * 1.2) this.lines.splice(0, this.lines.length - this.most); // in batches, not for every line
  }

  get count(): number {
    return this.next;
  }

  get dropped(): number {
    return this.next - Math.min(this.lines.length, this.most);
  }

  /** The newest lines, at most `many`, of this task or all, before line `until`, that contain this text in whatever case. */
  shown(many: number, task: number | null = null, until = Infinity, search = ""): LogLine[] {
    const [kept, wanted] = [this.lines.slice(-this.most), search.toLowerCase()];
    return kept.filter((line) => (task === null || line.task === task) && line.number < until && line.text.toLowerCase().includes(wanted)).slice(-many);
  }

  clear(): void {
    this.lines = [];
    this.next = 0;
    this.tasks.clear();
  }
}
