import { useSignal } from "@preact/signals";

import { get, poolPath, toApiError, type ReceiptFile } from "../api";
import { download } from "../lib";
import { Button } from "../ui";

/** Saves the receipt of a preemption: a page with its proof, which checks itself without network. job: one victim; none: all. */
export function ReceiptButton({ pool, decision, job }: { pool: string; decision: number; job?: string }) {
  const busy = useSignal(false);
  const failure = useSignal("");
  const save = async (): Promise<void> => {
    [busy.value, failure.value] = [true, ""];
    try {
      const query = new URLSearchParams({ decision: String(decision), ...(job === undefined ? {} : { job }) });
      const { file, page } = await get<ReceiptFile>(`${poolPath(pool, "receipt")}?${query}`);
      download(file, page, "text/html;charset=utf-8");
    } catch (error) {
      failure.value = toApiError(error).message;
    } finally {
      busy.value = false;
    }
  };
  return (
    <>
      <Button disabled={busy.value} title="One page with every record of this preemption and its proof. It checks itself, also without network." onClick={() => void save()}>
        {busy.value ? "Writing the receipt…" : "Receipt"}
      </Button>
      {failure.value && <p class="bad" role="alert">No receipt: {failure.value}</p>}
    </>
  );
}
