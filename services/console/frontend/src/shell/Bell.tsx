import { useEffect } from "preact/hooks";
import { useSignal } from "@preact/signals";

import { momentAt } from "../lib";
import { livePoolOf } from "../live";
import { Badge, Button, CheckBox, Dialog, JobLink, NodeLink } from "../ui";
import { notices, notifying, setNotifying, unread, watchNotices } from "./notices";

const WORDS = { bad: "!", warn: "!", good: "✓" } as const;

/** The bell: what happened to one's own jobs (and, for operators, to nodes) while the page is open. */
export function Bell({ pool }: { pool: string }) {
  const open = useSignal(false);
  const live = livePoolOf(pool);
  useEffect(() => watchNotices(live), [live]);
  const many = unread.value;
  const label = many ? `Notices: ${many} new` : "Notices";
  return (
    <>
      <Button
        quiet
        title={label}
        onClick={() => {
          open.value = true;
          unread.value = 0;
        }}
      >
        <svg class="bell" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.8" aria-hidden="true">
          <path d="M6 17V11a6 6 0 0 1 12 0v6l1.5 2h-15zM10 21h4" />
        </svg>
        {many > 0 && <span class="bell-count" aria-hidden="true">{many > 99 ? "99+" : many}</span>}
        <span class="visually-hidden" role="status">{label}</span>
      </Button>
      {open.value && (
        <Dialog title="Notices" onClose={() => (open.value = false)} footer={<NotifyChoice />}>
          {notices.value.length ? (
            <ul class="stack notices">
              {notices.value.map((each) => (
                <li key={each.id}>
                  <Badge tone={each.tone}>{WORDS[each.tone]}</Badge>
                  <span>
                    {each.text} {each.job && <JobLink pool={pool} job={each.job} />} {each.node && <NodeLink pool={pool} node={each.node} />}
                  </span>
                  <time class="soft number">{momentAt(each.at)}</time>
                </li>
              ))}
            </ul>
          ) : (
            <p class="soft">Nothing yet. Notices appear here while this page is open: your jobs that are preempted, run again or end; for operators also silent nodes and quarantined GPUs.</p>
          )}
        </Dialog>
      )}
    </>
  );
}

function NotifyChoice() {
  if (typeof Notification === "undefined") return <p class="soft">This browser has no notifications.</p>;
  return (
    <CheckBox checked={notifying.value} onChange={(on) => void setNotifying(on)}>
      Notify me in this browser when a job of mine is preempted
      {Notification.permission === "denied" && <span class="soft"> (the browser forbids it for this site)</span>}
    </CheckBox>
  );
}
