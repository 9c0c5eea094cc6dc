import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

import { SignButton } from "./Button";

/** A modal dialog: the browser's own, which traps the focus and closes with Escape. */
export function Dialog({ title, onClose, footer, children }: { title: string; onClose: () => void; footer: ComponentChildren; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog class="dialog" ref={dialog} onClose={onClose} aria-label={title}>
      <header>
        <h2>{title}</h2>
        <SignButton quiet sign="✕" label="Close" onClick={() => dialog.current?.close()} />
      </header>
      <div class="stack body">{children}</div>
      <footer>{footer}</footer>
    </dialog>
  );
}
