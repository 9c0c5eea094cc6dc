import { now } from "../../lib/clock";
import type { Archive } from "../../lib/archive";
import { useLoad } from "../../lib/load";
import { count } from "../../lib/words";
import type { Live } from "../../live/live";
import { Ago } from "../../ui/Ago";
import { Answer } from "../../ui/Answer";
import { SeqLink } from "../../ui/Links";

const LOOK_EVERY_S = 10;

interface Domain {
  first_seq: number;
  next_seq: number;
  head_hash: string;
  identity: string;
  ok: boolean;
  broken: string;
  behind: number | null;
  sealed: number;
  sealed_at: string | null;
}

/** How the chain stands: its head, how far it is archived and verified, its newest seal, what did not continue it. */
export function Chain({ pool, live, archive }: { pool: string; live: Live; archive: Archive }) {
  const asked = useLoad<Domain>(archive.state === "there" ? `/api/archive/domains/${encodeURIComponent(pool)}` : null, Math.floor(now.value / 1000 / LOOK_EVERY_S)).value;
  const found = asked.value;
  const orphans = (live.row.value as unknown as { orphans?: number } | null)?.orphans ?? null;
  const since = found ? Math.max(0, live.seq.value + 1 - found.sealed) : 0;
  return (
    <section class="card chain" aria-label="Chain and seals">
      <dl class="body answers">
        <Answer name="Head of the log">
          <strong class="number"><SeqLink pool={pool} seq={live.seq.value} /></strong>
          {live.time.value && <span class="soft"> <Ago at={live.time.value} /></span>}
        </Answer>
        <Answer name="Chain">
          {found ? (
            found.ok ? <span class="good">✓ verified by the archive up to #{found.next_seq - 1}</span> : <span class="bad">✗ broken: {found.broken}</span>
          ) : (
            <Unknown archive={archive} failed={Boolean(asked.failure)} />
          )}
          {found && found.behind !== null && found.behind > 0 && <span class="soft">, {count(found.behind, "message")} behind</span>}
        </Answer>
        <Answer name="Newest seal">
          {found ? (
            found.sealed > 0 ? (
              <>
                over {count(found.sealed, "record")}
                {found.sealed_at && <span class="soft">, <Ago at={found.sealed_at} />; {count(since, "record")} since</span>}
              </>
            ) : (
              <span class="soft">None yet: until the first one only the chain protects the log.</span>
            )
          ) : (
            <Unknown archive={archive} failed={Boolean(asked.failure)} />
          )}
        </Answer>
        <Answer name="Orphans">
          {orphans === null ? <span class="soft">not known</span> : orphans === 0 ? "none" : <>{count(orphans, "message")} <span class="soft">did not continue the chain and were passed over</span></>}
        </Answer>
      </dl>
    </section>
  );
}

function Unknown({ archive, failed }: { archive: Archive; failed: boolean }) {
  if (archive.state === "none") return <span class="soft">This console has no archive to ask.</span>;
  return <span class="soft">{failed ? "The archive does not answer now." : "asking…"}</span>;
}
