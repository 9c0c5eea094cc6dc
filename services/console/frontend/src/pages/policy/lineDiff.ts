// Line diff of two texts: the longest common subsequence between their common prefix and suffix.

interface DiffLine {
  is: "same" | "removed" | "added";
  text: string;
}

/** A run of unchanged lines that is not shown. */
interface Skipped {
  is: "skipped";
  lines: number;
}

const MOST = 3_000;

/** The diff; null: the texts differ too much. */
export function diff(before: string, after: string): DiffLine[] | null {
  const old = lines(before);
  const now = lines(after);
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head += 1;
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail += 1;
  const middle = diffMiddle(old.slice(head, old.length - tail), now.slice(head, now.length - tail));
  return middle && [...same(old.slice(0, head)), ...middle, ...same(old.slice(old.length - tail))];
}

function diffMiddle(old: string[], now: string[]): DiffLine[] | null {
  if (old.length > MOST || now.length > MOST) return null;
  const width = now.length + 1;
  const longest = new Uint16Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] = old[i] === now[j] ? longest[(i + 1) * width + j + 1]! + 1 : Math.max(longest[(i + 1) * width + j]!, longest[i * width + j + 1]!);
    }
  }
  const found: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      found.push({ is: "same", text: old[i]! });
      i += 1;
      j += 1;
    } else if (j >= now.length || (i < old.length && longest[(i + 1) * width + j]! >= longest[i * width + j + 1]!)) {
      found.push({ is: "removed", text: old[i]! });
      i += 1;
    } else {
      found.push({ is: "added", text: now[j]! });
      j += 1;
    }
  }
  return found;
}

/** The diff with only `context` unchanged lines around each change. */
export function collapseUnchanged(whole: DiffLine[], context = 3): (DiffLine | Skipped)[] {
  const near = whole.map((_, at) => whole.slice(Math.max(0, at - context), at + context + 1).some((line) => line.is !== "same"));
  const found: (DiffLine | Skipped)[] = [];
  whole.forEach((line, at) => {
    const last = found.at(-1);
    if (near[at]) found.push(line);
    else if (last?.is === "skipped") last.lines += 1;
    else found.push({ is: "skipped", lines: 1 });
  });
  return found;
}

const lines = (text: string): string[] => text.replace(/\n$/, "").split("\n");
const same = (texts: string[]): DiffLine[] => texts.map((text) => ({ is: "same", text }));
