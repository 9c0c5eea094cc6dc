// What a person types and pastes, as a program in a terminal reads it.

/** What keys mean to a program in the terminal; null: the key is the browser's. Shift+Tab leaves the terminal. */
export function keyText(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "altKey" | "metaKey" | "shiftKey" | "isComposing">, application = false): string | null {
  const { key, ctrlKey, altKey, metaKey, shiftKey } = event;
  if (metaKey || event.isComposing || (ctrlKey && shiftKey) || (key === "Tab" && shiftKey)) return null;
  if (key in NAMED) return (altKey ? "\u001b" : "") + NAMED[key]!;
  if (key in CURSOR) return `\u001b${application && !ctrlKey ? "O" : "["}${ctrlKey ? "1;5" : ""}${CURSOR[key]!}`;
  if ([...key].length !== 1) return null;
  if (!ctrlKey) return (altKey ? "\u001b" : "") + key;
  if (altKey) return key; // AltGr
  const code = key === " " ? 0 : key.toUpperCase().charCodeAt(0) - 64;
  return code >= 0 && code < 32 ? String.fromCharCode(code) : null;
}

const CURSOR: Record<string, string> = { ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F" };
const NAMED: Record<string, string> = {
  Enter: "\r", Tab: "\t", Backspace: "\u007f", Escape: "\u001b", Insert: "\u001b[2~", Delete: "\u001b[3~", PageUp: "\u001b[5~", PageDown: "\u001b[6~",
  F1: "\u001bOP", F2: "\u001bOQ", F3: "\u001bOR", F4: "\u001bOS", F5: "\u001b[15~", F6: "\u001b[17~", F7: "\u001b[18~", F8: "\u001b[19~", F9: "\u001b[20~", F10: "\u001b[21~", F12: "\u001b[24~",
};

/** What is pasted: nothing of it may end the brackets that programs ask for, or be a key. */
export const pasteText = (text: string, bracketed: boolean): string => {
  const plain = text.replace(/\r?\n/g, "\r").replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g, "");
  return bracketed ? `\u001b[200~${plain}\u001b[201~` : plain;
};
