// Text that came from outside, as text: no terminal commands, no characters that turn a line round or hide in it.

const ANSI = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_]|[ -/]+[0-~])|\u009b[0-?]*[ -/]*[@-~]/g;
const CONTROL = /[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/g;
const HIDDEN = /[\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const LONGEST = 4_000;

/** One line: colours and cursor movements gone, what a carriage return overwrote gone, other control characters shown as �. */
export function plainLine(text: string): string {
  const cut = text.length > LONGEST ? `${text.slice(0, LONGEST)} … (${text.length - LONGEST} more characters)` : text;
  const bare = cut.replace(ANSI, "").replace(/[\r\n]+$/, "");
  const shown = bare.slice(bare.lastIndexOf("\r") + 1);
  return shown.replace(CONTROL, "�").replace(HIDDEN, "�");
}
