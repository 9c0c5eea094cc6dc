import type { ErrorDetail } from "../api";

/** An error on a line, counted from 1; without line: about the whole text. */
export type LineError = Pick<ErrorDetail, "line" | "detail">;

/** The range to underline for each error: from the first character of the line to its end. */
export function errorRanges(text: string, errors: readonly LineError[]): { from: number; to: number; message: string }[] {
  const lines = text.split("\n");
  const starts: number[] = [];
  let at = 0;
  for (const line of lines) {
    starts.push(at);
    at += line.length + 1;
  }
  return errors
    .map(({ line, detail: message }) => {
      const row = Math.min(Math.max(line ?? 1, 1), lines.length) - 1;
      const content = lines[row]!;
      const from = starts[row]! + content.length - content.trimStart().length;
      return { from, to: Math.max(from, starts[row]! + content.trimEnd().length), message };
    })
    .sort((one, other) => one.from - other.from);
}
