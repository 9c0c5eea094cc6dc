// Positions of the slider over the log.
export interface Span {
  first: number;
  head: number;
}

/** The record number within the log; its end for NaN. */
export const moveTo = (span: Span, seq: number): number => (Number.isFinite(seq) ? Math.min(span.head, Math.max(span.first, Math.round(seq))) : span.head);

export const stepTo = (span: Span, seq: number, by: number): number => moveTo(span, seq + by);
