// Parts of responses that the APIs' documents leave open: the data of records (docs/events).
import type { DecisionDetails, LiveJob, LiveNode, RecordText } from "../../generated/console";
import type { EvictionItem, RecordDetails, RecordItem as ArchivedRecord } from "../../generated/query";

/** A GPU: state, job it is allocated to, job it is reserved for, tasks that share it (`job/task`), fault. */
export type Cell = LiveNode["devices"][number];
export type CellState = Cell[0];

export type Eviction = EvictionItem;
export type DecisionResponse = DecisionDetails;

/** A record of the archive, with its title and text as in the live stream; they are absent for records of another release. */
export type RecordItem = ArchivedRecord & RecordText & { data: Record<string, unknown> };
export type RawRecord = Omit<RecordDetails, "headers"> & { data: Record<string, unknown>; headers: [string, unknown][] };

/** A page of a list of the query API; next: cursor of the next page, null: this is the last. */
export interface Page<T> {
  items: T[];
  next: string | null;
}

export type JobState = LiveJob["state"];

/** A live job with its queue position, which the stream sends separately. */
export type QueuedJob = LiveJob & { jobs_ahead: number | null };
