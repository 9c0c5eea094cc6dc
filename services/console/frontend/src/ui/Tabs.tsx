import { useLocation } from "preact-iso";
import type { ComponentChildren } from "preact";
import "./tabs.css";

export interface Tab {
  key: string;
  name: ComponentChildren;
  content: () => ComponentChildren;
}

/** Views of one thing, of which the address has the chosen one: `?tab=log`; the first without. Arrow keys choose. */
export function Tabs({ label, tabs }: { label: string; tabs: readonly Tab[] }) {
  const { path, query, route } = useLocation();
  const chosen = tabs.find((tab) => tab.key === query.tab) ?? tabs[0]!;
  const go = (tab: Tab): void => {
    const others = Object.entries(query).filter(([name]) => name !== "tab") as [string, string][];
    const search = new URLSearchParams([...others, ...(tab === tabs[0] ? [] : [["tab", tab.key] as [string, string]])]).toString();
    route(search ? `${path}?${search}` : path, true);
  };
  const onKey = (event: KeyboardEvent): void => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!by) return;
    event.preventDefault();
    const next = tabs[(tabs.indexOf(chosen) + by + tabs.length) % tabs.length]!;
    go(next);
    document.getElementById(`tab-${next.key}`)?.focus();
  };
  return (
    <>
      <div class="row tabs" role="tablist" aria-label={label} onKeyDown={onKey}>
        {tabs.map((tab) => (
          <button key={tab.key} id={`tab-${tab.key}`} type="button" role="tab" aria-selected={tab === chosen} aria-controls="tab-panel" tabIndex={tab === chosen ? 0 : -1} onClick={() => go(tab)}>
            {tab.name}
          </button>
        ))}
      </div>
      <div class="stack spaced tab-panel" id="tab-panel" role="tabpanel" aria-labelledby={`tab-${chosen.key}`}>
        {chosen.content()}
      </div>
    </>
  );
}
