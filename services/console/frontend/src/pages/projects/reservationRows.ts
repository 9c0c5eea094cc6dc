// Reservations of GPUs, as rows of a table.
import type { ReservationView } from "../../api";

const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/** Those whose GPUs the jobs of a project may use. path: the project and those above it. */
export const reservationsOf = (all: readonly ReservationView[], path: readonly string[]): ReservationView[] => all.filter((each) => path.includes(each.project));

/** `weekly on Tue, Thu (UTC), 3 times left`, `–`. */
export function repeatText({ repeat, weekdays, times_left }: Pick<ReservationView, "repeat" | "weekdays" | "times_left">): string {
  if (repeat === "never") return "–";
  const days = weekdays.length ? ` on ${weekdays.map((day) => DAYS[day]).join(", ")} (UTC)` : "";
  return `${repeat}${days}, ${times_left === 1 ? "the last time" : `${times_left} times left`}`;
}
