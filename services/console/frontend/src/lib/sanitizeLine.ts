// Sanitizes untrusted text: removes terminal escapes, and replaces control, bidirectional and invisible characters.

const ANSI = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_]|[ -/]+[0-~])|\u009b[0-?]*[ -/]*[@-~]/g;
const CONTROL = /[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/g;
const HIDDEN = /[\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const MAX_LENGTH = 4_000;

/** One line without escapes and without text overwritten by a carriage return; other control characters become �. */
export function sanitizeLine(text: string): string {
  const cut = text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)} … (${text.length - MAX_LENGTH} more characters)` : text;
  const stripped = cut.replace(ANSI, "").replace(/[\r\n]+$/, "");
  const shown = stripped.slice(stripped.lastIndexOf("\r") + 1);
  return shown.replace(CONTROL, "�").replace(HIDDEN, "�");
}
