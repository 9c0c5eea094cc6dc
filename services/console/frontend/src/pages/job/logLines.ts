// The newest lines of a job's log, in a bounded buffer.
import { sanitizeLine } from "../../lib/sanitizeLine";

export interface LogLine {
  number: number;
  task: number;
  attempt: number;
  at: string | null;
  text: string;
}

export const LINES_KEPT = 5_000;

/** A line as the stream sends it. */
export interface SentLine {
  task?: number;
  attempt?: number;
  at?: string | null;
  text?: string;
}

/** A bounded buffer of the newest lines; `dropped` counts the discarded ones. */
export class LogLines {
  private lines: LogLine[] = [];
  private next = 0;
  readonly tasks = new Set<number>();

  constructor(private readonly most = LINES_KEPT) {}

  add(sent: SentLine): void {
    const task = Number(sent.task ?? 0);
    this.tasks.add(task);
    this.lines.push({ number: this.next, task, attempt: Number(sent.attempt ?? 0), at: sent.at ?? null, text: sanitizeLine(String(sent.text ?? "")) });
    this.next += 1;
    if (this.lines.length > this.most * 1.2) this.lines.splice(0, this.lines.length - this.most); // in batches, not for every line
  }

  get count(): number {
    return this.next;
  }

  get dropped(): number {
    return this.next - Math.min(this.lines.length, this.most);
  }

  /** The newest lines, at most `many`, of this task or all, before line `until`. */
  shown(many: number, task: number | null = null, until = Infinity): LogLine[] {
    const kept = this.lines.slice(-this.most);
    return kept.filter((line) => (task === null || line.task === task) && line.number < until).slice(-many);
  }

  clear(): void {
    this.lines = [];
    this.next = 0;
    this.tasks.clear();
  }
}
