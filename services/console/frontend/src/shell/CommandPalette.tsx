import { useSignal } from "@preact/signals";
import { useLocation } from "preact-iso";
import { useEffect, useRef } from "preact/hooks";

import { chooseTheme, chooseTimeZone, timeZone } from "../lib";
import { livePoolOf } from "../live";
import { Button, Dialog, jobPath, nodePath, pagePath, projectPath, SignButton } from "../ui";
import { isTyping, matching, type Command } from "./commands";

const KEYS: [string, string][] = [["Ctrl K", "go to a page, job, node or project"], ["/", "find a job"], ["?", "this help"], ["Escape", "close a dialog or the tip of the map"], ["Tab, Enter", "move on, press"], ["Arrow keys", "on the map: from GPU to GPU"], ["Enter, n", "on the map: open the job, the node"], ["Arrow keys, + −", "on the timeline: move, zoom"], ["n, p, Enter", "on the timeline: next, previous step; open its decision"], ["n, p, Space", "in the player: next, previous step; play on its slider"]];

/** The command palette (Ctrl K) and the help on keys (?). */
export function CommandPalette({ pool, pages }: { pool: string; pages: readonly { at: string; name: string }[] }) {
  const open = useSignal<"palette" | "help" | null>(null);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") open.value = "palette";
      else if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
      else if (event.key === "?") open.value = "help";
      else if (event.key === "/") document.querySelector<HTMLInputElement>(".find input")?.focus();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  const close = (): void => void (open.value = null);
  return (
    <>
      <SignButton quiet sign="⌘" label="Go to a page, job, node or project (Ctrl K)" onClick={() => (open.value = "palette")} />
      {open.value === "palette" && <Palette pool={pool} pages={pages} onClose={close} />}
      {open.value === "help" && (
        <Dialog title="Keys" onClose={close} footer={<Button onClick={close}>Close</Button>}>
          <dl class="facts">
            {KEYS.flatMap(([key, text]) => [
              <dt key={`${key} `}>
                <kbd>{key}</kbd>
              </dt>,
              <dd key={key}>{text}</dd>,
            ])}
          </dl>
        </Dialog>
      )}
    </>
  );
}

function Palette({ pool, pages, onClose }: { pool: string; pages: readonly { at: string; name: string }[]; onClose: () => void }) {
  const { route } = useLocation();
  const live = livePoolOf(pool);
  const text = useSignal("");
  const at = useSignal(0);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  const root = pagePath(pool);
  const go = (path: string) => () => route(path);
  const commands: Command[] = [
    ...pages.map((page): Command => ({ name: page.name, kind: "page", run: go(root + page.at) })),
    { name: timeZone.value === "utc" ? "Show local times" : "Show times in UTC", kind: "action", run: () => chooseTimeZone(timeZone.peek() === "utc" ? "local" : "utc") },
    ...(["light", "dark", "system"] as const).map((theme): Command => ({ name: `Theme: ${theme}`, kind: "action", run: () => chooseTheme(theme) })),
    ...(text.value.trim() ? [...live.jobs.keys()].map((job): Command => ({ name: job, kind: "job", run: go(jobPath(pool, job)) })) : []),
    ...(text.value.trim() ? [...live.nodes.keys()].map((node): Command => ({ name: node, kind: "node", run: go(nodePath(pool, node)) })) : []),
    ...(text.value.trim() ? [...live.projects.keys()].filter(Boolean).map((name): Command => ({ name, kind: "project", run: go(projectPath(pool, name)) })) : []),
  ];
  const found = matching(commands, text.value);
  const chosen = Math.min(at.value, found.length - 1);
  const run = (command: Command | undefined): void => {
    if (!command) return;
    onClose();
    command.run();
  };
  return (
    <Dialog title="Go to" onClose={onClose} footer={<span class="soft">↑ ↓ choose, Enter opens, Escape closes</span>}>
      <input
        ref={input}
        class="input"
        role="combobox"
        aria-label="Page, job, node or project"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={chosen >= 0 ? `palette-${chosen}` : undefined}
        autocomplete="off"
        placeholder="page, job, node or project"
        value={text.value}
        onInput={(event) => {
          text.value = event.currentTarget.value;
          at.value = 0;
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") at.value = Math.min(found.length - 1, chosen + 1);
          else if (event.key === "ArrowUp") at.value = Math.max(0, chosen - 1);
          else if (event.key === "Enter") run(found[chosen]);
          else return;
          event.preventDefault();
        }}
      />
      <ul class="stack palette" id="palette-list" role="listbox" aria-label="Found">
        {found.map((command, number) => (
          <li key={`${command.kind} ${command.name}`} id={`palette-${number}`} role="option" aria-selected={number === chosen} onClick={() => run(command)}>
            {command.name} <span class="soft">{command.kind}</span>
          </li>
        ))}
      </ul>
      {!found.length && <p class="soft">Nothing is called so. A job that has ended is found on the page Jobs.</p>}
    </Dialog>
  );
}
