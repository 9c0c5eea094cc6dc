// The stages of an eviction, with their signs and words.
export const STAGE_LABELS: [string, string, string][] = [
  ["started", "▸", "started"],
  ["noticed", "N", "notice delivered"],
  ["acknowledged", "A", "acknowledged"],
  ["step_confirmed", "A", "step confirmed"],
  ["step_agreed", "A", "step agreed"],
  ["checkpoint_started", "C", "checkpointing"],
  ["saving_in_flight", "C", "checkpointing"],
  ["checkpoint_committed", "C", "checkpoint saved"],
  ["yielding", "Y", "yielding"],
  ["term_sent", "T", "TERM sent"],
  ["kill_sent", "K", "KILL sent"],
  ["frozen", "F", "stopped for its snapshot"],
  ["dumped", "D", "snapshot written"],
  ["stored", "S", "snapshot stored"],
  ["save_failed", "!", "snapshot failed"],
  ["exited", "X", "exited"],
  ["stuck", "!", "stuck"],
  ["released", "R", "GPUs released"],
  ["cancelled", "↩", "cancelled"],
  ["resumed", "▶", "resumed"],
];

/** The stage of an eviction: `checkpointing`. */
export const stageText = (stage: string): string => STAGE_LABELS.find(([name]) => name === stage)?.[2] ?? stage.replaceAll("_", " ");
