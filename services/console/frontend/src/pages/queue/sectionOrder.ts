import type { ExplainedSection } from "../../api";

const FIRST_QUESTIONS = ["What would unblock it?", "Why is it pending?", "Why are some of its tasks pending?"];

/** The sections in display order: unblockers, pending reasons, others. The state is omitted: the row shows it. */
export function sortSections(sections: readonly ExplainedSection[]): ExplainedSection[] {
  const ordered = FIRST_QUESTIONS.flatMap((question) => sections.filter((each) => each.question === question));
  const others = sections.filter((each) => !FIRST_QUESTIONS.includes(each.question) && each.question !== "What is its state?");
  return [...ordered, ...others].filter((each) => each.sentences.length);
}
