import { archivePath, useFetch, type Archive, type PoolItem } from "../../api";
import { count, now } from "../../lib";
import type { LivePool } from "../../live";
import { DescriptionItem, RelativeTime, SeqLink } from "../../ui";

const REFRESH_SECONDS = 10;

/** Status of the hash chain: head, archived and verified records, newest seal, orphans. */
export function ChainStatus({ pool, live, archive }: { pool: string; live: LivePool; archive: Archive }) {
  const refreshed = useFetch<PoolItem>(archive.state === "there" ? archivePath(pool) : null, Math.floor(now.value / 1000 / REFRESH_SECONDS)).value;
  const archived = refreshed.value;
  const orphans = (live.row.value as unknown as { orphans?: number } | null)?.orphans ?? null;
  const since = archived ? Math.max(0, live.seq.value + 1 - archived.sealed) : 0;
  return (
    <section class="card chain" aria-label="Chain and seals">
      <dl class="body key-facts">
        <DescriptionItem name="Head of the log">
          <strong class="number"><SeqLink pool={pool} seq={live.seq.value} /></strong>
          {live.time.value && <span class="soft"> <RelativeTime at={live.time.value} /></span>}
        </DescriptionItem>
        <DescriptionItem name="Chain">
          {archived ? (
            archived.ok ? <span class="good">✓ verified by the archive up to #{archived.next_seq - 1}</span> : <span class="bad">✗ broken: {archived.broken}</span>
          ) : (
            <UnknownValue archive={archive} failed={Boolean(refreshed.failure)} />
          )}
          {archived && archived.behind !== null && archived.behind > 0 && <span class="soft">, {count(archived.behind, "message")} behind</span>}
        </DescriptionItem>
        <DescriptionItem name="Newest seal">
          {archived ? (
            archived.sealed > 0 ? (
              <>
                over {count(archived.sealed, "record")}
                {archived.sealed_at && <span class="soft">, <RelativeTime at={archived.sealed_at} />; {count(since, "record")} since</span>}
              </>
            ) : (
              <span class="soft">None yet: until the first seal, only the hash chain protects the log.</span>
            )
          ) : (
            <UnknownValue archive={archive} failed={Boolean(refreshed.failure)} />
          )}
        </DescriptionItem>
        <DescriptionItem name="Orphans">
          {orphans === null ? <span class="soft">unknown</span> : orphans === 0 ? "none" : <>{count(orphans, "message")} <span class="soft">not in the chain</span></>}
        </DescriptionItem>
      </dl>
    </section>
  );
}

function UnknownValue({ archive, failed }: { archive: Archive; failed: boolean }) {
  if (archive.state === "none") return <span class="soft">No archive is configured.</span>;
  return <span class="soft">{failed ? "The archive is unavailable." : "loading…"}</span>;
}
