import type { JobPage } from "../../api";

/** Whether its tasks may have a terminal. The log does not say which jobs were submitted with one, only that a node found none. */
export const mayHaveTerminal = (details: Pick<JobPage, "attachments">): boolean => details.attachments.every((each) => each.reason !== "no-terminal");
