/** An error on a line, counted from 1; without line: about the whole text. */
export interface LineError {
  line?: number;
  column?: number;
  detail: string;
}

/** The range to underline for each error: from its column, or the first character of the line, to its end. */
export function errorRanges(text: string, errors: readonly LineError[]): { from: number; to: number; message: string }[] {
  const lines = text.split("\n");
  const starts: number[] = [];
  let at = 0;
  for (const line of lines) {
    starts.push(at);
    at += line.length + 1;
  }
  return errors
    .map(({ line = 1, column, detail: message }) => {
      const row = Math.min(Math.max(line, 1), lines.length) - 1;
      const content = lines[row]!;
      const first = column === undefined ? content.length - content.trimStart().length : Math.min(Math.max(column - 1, 0), content.length);
      return { from: starts[row]! + first, to: starts[row]! + content.trimEnd().length, message };
    })
    .map((mark) => ({ ...mark, to: Math.max(mark.from, mark.to) }))
    .sort((one, other) => one.from - other.from);
}
