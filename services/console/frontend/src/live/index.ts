export * from "./PoolStatePending";
export * from "./currentUser";
export * from "./livePool";
