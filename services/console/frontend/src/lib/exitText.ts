// How a task ended. signals.json holds the names of the core; a test keeps both equal.
import signals from "./signals.json";

const NAMES: Record<string, string> = signals;

/** `exit code 3`, `signal 15 (SIGTERM)` for -15. */
export const exitText = (code: number): string => (code < 0 ? exitValue(code) : `exit code ${code}`);

/** `3`, `signal 15 (SIGTERM)` for -15, in a column of exit codes. */
export function exitValue(code: number): string {
  if (!(code < 0)) return String(code);
  const name = NAMES[-code];
  return name === undefined ? `signal ${-code}` : `signal ${-code} (${name})`;
}
