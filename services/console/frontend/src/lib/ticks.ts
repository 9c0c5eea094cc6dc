/** Between two round times on an axis, in seconds. */
export const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000];
const STEPS = TIME_STEPS.map((seconds) => seconds * 1000);

interface Tick {
  at: number;
  text: string;
}

/** Round times within the range, at most `most`, on a clock that is `offset` minutes east of UTC. */
export function ticks(from: number, to: number, most: number, offset = 0): Tick[] {
  const step = STEPS.find((each) => (to - from) / each <= most) ?? STEPS.at(-1)! * Math.ceil((to - from) / STEPS.at(-1)! / most);
  const found: Tick[] = [];
  const shift = offset * 60_000;
  for (let at = Math.ceil((from + shift) / step) * step; at <= to + shift; at += step) found.push({ at: at - shift, text: tickText(at, step) });
  return found;
}

/** at: ms on the clock of the axis. */
function tickText(at: number, step: number): string {
  const text = new Date(at).toISOString();
  if (step >= 86_400_000) return step < 2_592_000_000 ? text.slice(5, 10) : text.slice(0, 10);
  if (at % 86_400_000 === 0) return text.slice(5, 10);
  if (step >= 21_600_000) return `${text.slice(5, 10)} ${text.slice(11, 16)}`;
  return step < 60_000 ? text.slice(11, 19) : text.slice(11, 16);
}
