// What the auditor, and this browser, have verified up to a record, in sentences.
import type { Verification } from "../../api";
import { count, momentAt } from "../../lib";
import type { ReplayState } from "../../verify/replayVerifier";
import type { Seal } from "../../verify/seals";

/** ok null: neither verified nor refuted. more: text of the archive. */
export interface Verdict {
  ok: boolean | null;
  text: string;
  more?: string;
}

/** Whether nothing of it changes any more. */
export const isSettled = ({ seq, seal, checked_seq }: Verification): boolean => seal !== null && checked_seq >= seq;

export const chainText = ({ next_seq, broken }: Verification): Verdict =>
  broken ? { ok: false, text: `✗ Chain verified up to #${next_seq - 1} only:`, more: broken } : { ok: true, text: `✓ Chain verified up to #${next_seq - 1}` };

/** Of all proposals up to the record: how many searching again gave, too. */
export function proposalsText({ seq, checked_seq, proposals: { reproduced, not_reproduced, not_searched } }: Verification): Verdict {
  const all = reproduced + not_reproduced + not_searched;
  const upTo = checked_seq < seq ? ` up to #${checked_seq}, as far as it is` : " up to here";
  if (!all) return { ok: null, text: `No proposals${upTo}.` };
  const parts = [`${reproduced} of ${count(all, "proposal")}${upTo} reproduced`, not_reproduced && `${not_reproduced} not reproduced`, not_searched && `${not_searched} not searched again`].filter(Boolean).join(", ");
  if (not_reproduced) return { ok: false, text: `✗ ${parts}` };
  return not_searched ? { ok: null, text: `${parts}.` } : { ok: true, text: `✓ ${parts}` };
}

/** Of the newest proposal, unless it was reproduced: what searching again gave instead, or why nothing was searched. */
export function newestText({ proposal }: Verification): Verdict | null {
  if (!proposal || proposal.result === "reproduced") return null;
  const isFalse = proposal.result === "not-reproduced";
  return { ok: isFalse ? false : null, text: isFalse ? `✗ #${proposal.seq} is not reproduced.` : `#${proposal.seq} was not searched again:`, more: proposal.text };
}

/** Of the first seal over the record. holds: its signature does. isUnder: whether it was signed over the records that were read; null: not computed. */
export function sealText({ seq, same }: Pick<ReplayState, "seq" | "same">, { size, sealed_at }: Pick<Seal, "size" | "sealed_at">, holds: boolean, isUnder: boolean | null): Verdict {
  const seal = `the seal over the first ${count(size, "record")}, ${momentAt(sealed_at / 1000)}`;
  if (!holds) return { ok: false, text: `✗ The signature is not valid of ${seal}` };
  if (isUnder === null) return { ok: null, text: `The signature is valid of ${seal}. Whether #${seq} is among them was not computed: that takes all of them.` };
  return isUnder && same ? { ok: true, text: `✓ #${seq} is included in ${seal}, whose signature is valid` } : { ok: false, text: `✗ Other records than these were signed in ${seal}` };
}
