// Budgets of a project, and what preemption took from its jobs.
import type { BudgetView, MonthReport } from "../../api";

export const BUDGET_TONES = { within: "good", warning: "warn", exhausted: "bad" } as const;

/** Those that count the project's jobs as such: its own, those of the projects above it, and those of nobody in particular. */
export const budgetsOf = (budgets: readonly BudgetView[], project: string, ancestors: readonly string[]): BudgetView[] =>
  budgets.filter((each) => each.user === null && (each.project === null || each.project === project || ancestors.includes(each.project)));

/** `vision, class train`; `all jobs`. */
export const sharesText = (budget: BudgetView): string =>
  [budget.project, budget.priority_class && `class ${budget.priority_class}`].filter(Boolean).join(", ") || "all jobs";

/** What the project's own jobs lost in the month. */
export const lossesOf = (report: MonthReport, project: string): MonthReport["projects"][number] | null =>
  report.projects.find((each) => each.project === project) ?? null;
