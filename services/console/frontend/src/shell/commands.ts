// What the command palette offers for a text.

export interface Command {
  name: string;
  kind: "page" | "job" | "node" | "project" | "action";
  run: () => void;
}

const SHOWN = 12;

/** The commands that match: all words of the text occur in the name; those that begin with it first. */
export function matching(commands: Iterable<Command>, text: string): Command[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found: Command[] = [];
  for (const command of commands) {
    const name = command.name.toLowerCase();
    if (words.every((word) => name.includes(word))) found.push(command);
    if (found.length >= 500) break;
  }
  const first = words[0] ?? "";
  const rank = (command: Command): number => (first && command.name.toLowerCase().startsWith(first) ? 0 : 1);
  return found.map((command, at) => ({ command, at })).sort((a, b) => rank(a.command) - rank(b.command) || a.at - b.at).slice(0, SHOWN).map(({ command }) => command);
}

/** Whether a key press is meant for an input, so that it is no shortcut. */
export const isTyping = (target: EventTarget | null): boolean => target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
