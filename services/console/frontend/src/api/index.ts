export type * from "../../generated/console";
export type { JobHistory, Accounting, AccountingRow, AllocationItem, AttemptItem, Figures, ArchivedJob, MonthReport, Overview, OverviewPoint, PoolItem, ProjectSeries, QuotaSeries, RangeFigures, RecordDetails, SealItem, Verification } from "../../generated/query";
export * from "./client";
export * from "./debouncedQuery";
export type * from "./types";
export * from "./useArchive";
export * from "./useFetch";
