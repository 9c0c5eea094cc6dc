import type { Section } from "../../ui/Sections";

const ASKED = ["What would free it?", "Why does it wait?", "Why does it not have all of its tasks?"];

/** What would free it stands first, then why it waits, then the rest; where it stands is in the row already. */
export function inOrder(sections: readonly Section[]): Section[] {
  const first = ASKED.flatMap((question) => sections.filter((each) => each.question === question));
  const rest = sections.filter((each) => !ASKED.includes(each.question) && each.question !== "Where does it stand?");
  return [...first, ...rest].filter((each) => each.says.length);
}
