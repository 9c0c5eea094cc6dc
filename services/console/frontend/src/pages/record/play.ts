// Where the slider over the log stands.
export interface Span {
  first: number;
  head: number;
}

/** Within the log; the end where it is no number. */
export const moveTo = (span: Span, seq: number): number => (Number.isFinite(seq) ? Math.min(span.head, Math.max(span.first, Math.round(seq))) : span.head);

export const stepTo = (span: Span, seq: number, by: number): number => moveTo(span, seq + by);
