// The screen of a terminal as parts of lines with classes. The emulator has no page: what a program prints cannot reach one.
import { Terminal, type IBufferCell } from "@xterm/headless";

import { sanitizeLine } from "../../lib";
import { colourClass, type Span } from "../../lib/ansiSpans";

const SCROLLBACK = 1_000;

export interface Size {
  rows: number;
  columns: number;
}

export class ShellScreen {
  private readonly terminal: Terminal;

  /** answer: what the emulator types by itself, where a program asks for the cursor's place, say. */
  constructor({ rows, columns }: Size, answer: (text: string) => void) {
    this.terminal = new Terminal({ allowProposedApi: true, scrollback: SCROLLBACK, cols: columns, rows });
    this.terminal.onData(answer);
  }

  get modes(): { applicationCursorKeysMode: boolean; bracketedPasteMode: boolean } {
    return this.terminal.modes;
  }

  /** Resolved once it is on the screen. */
  write(data: Uint8Array): Promise<void> {
    return new Promise((done) => this.terminal.write(data, done));
  }

  resize({ rows, columns }: Size): void {
    this.terminal.resize(columns, rows);
  }

  scroll(lines: number): void {
    this.terminal.scrollLines(lines);
  }

  lines(): Span[][] {
    const { active } = this.terminal.buffer;
    const cell = active.getNullCell();
    const cursor = active.baseY + active.cursorY;
    return Array.from({ length: this.terminal.rows }, (_, row) => {
      const line = active.getLine(active.viewportY + row);
      const spans: Span[] = [];
      for (let column = 0; line && column < this.terminal.cols; column += 1) {
        const found = line.getCell(column, cell);
        if (!found || found.getWidth() === 0) continue; // the second half of a wide character
        const classes = classesOf(found, active.viewportY + row === cursor && column === active.cursorX);
        const text = found.getChars() || " ";
        const last = spans.at(-1);
        if (last?.classes === classes) last.text += text;
        else spans.push({ text, classes });
      }
      if (spans.length && !spans.at(-1)!.classes) spans.at(-1)!.text = spans.at(-1)!.text.trimEnd();
      return spans.map(({ text, classes }) => ({ text: sanitizeLine(text), classes }));
    });
  }

  close(): void {
    this.terminal.dispose();
  }
}

function classesOf(cell: IBufferCell, isCursor: boolean): string {
  const colour = cell.isFgPalette() ? colourClass(cell.getFgColor()) : "";
  const flags: [string, unknown][] = [["bold", cell.isBold()], ["dim", cell.isDim()], ["italic", cell.isItalic()], ["underline", cell.isUnderline()], ["hidden", cell.isInvisible()]];
  const inverse = Boolean(cell.isInverse()) !== isCursor;
  return [colour, ...flags.filter(([, on]) => on).map(([name]) => `ansi-${name}`), inverse ? "ansi-inverse" : ""].filter(Boolean).join(" ");
}
