// The lines of a job's log that a page keeps: the newest, whatever comes.
import { plainLine } from "../../lib/plain";

export interface LogLine {
  number: number;
  task: number;
  attempt: number;
  at: string | null;
  text: string;
}

export const LINES_KEPT = 5_000;

/** What the stream carries. */
export interface Sent {
  task?: number;
  attempt?: number;
  at?: string | null;
  text?: string;
}

/** A ring of the newest lines. `dropped` counts what is not kept any more. */
export class LogLines {
  private lines: LogLine[] = [];
  private next = 0;
  readonly tasks = new Set<number>();

  constructor(private readonly most = LINES_KEPT) {}

  add(sent: Sent): void {
    const task = Number(sent.task ?? 0);
    this.tasks.add(task);
    this.lines.push({ number: this.next, task, attempt: Number(sent.attempt ?? 0), at: sent.at ?? null, text: plainLine(String(sent.text ?? "")) });
    this.next += 1;
    if (this.lines.length > this.most * 1.2) this.lines.splice(0, this.lines.length - this.most); // not with every line
  }

  get count(): number {
    return this.next;
  }

  get dropped(): number {
    return this.next - Math.min(this.lines.length, this.most);
  }

  /** The newest, at most `many`, of this task or all, up to the line `until`. */
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
