/** Usage bar: solid up to the quota, striped above it; a mark at each of `marks`. `words`: the same as text. */
export function Bar({ used, quota, of, marks = [], words }: { used: number; quota: number | null; of: number; marks?: number[]; words: string }) {
  const whole = Math.max(of, used, quota ?? 0, ...marks, 1e-9);
  const own = Math.min(used, quota ?? used);
  return (
    <div class="bar" role="img" aria-label={words} title={words}>
      <span class="fill" style={{ "--part": own / whole }} />
      {used > own && <span class="over" style={{ "--from": own / whole, "--part": (used - own) / whole }} />}
      {marks.map((at) => (
        <span key={at} class="mark" style={{ "--at": Math.min(at / whole, 0.997) }} />
      ))}
    </div>
  );
}
