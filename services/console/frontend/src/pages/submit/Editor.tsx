import { useEffect, useRef, useState } from "preact/hooks";

import { Loading } from "../../ui/Loading";
import type { Editing } from "./codemirror";
import type { LineFault } from "./marks";
import "./editor.css";

interface Props {
  label: string;
  value: string;
  onInput: (text: string) => void;
  faults?: readonly LineFault[];
}

const NONE: readonly LineFault[] = [];

/** A YAML editor with faults on their lines. Where its bundle cannot be loaded, a plain field. */
export function Editor({ label, value, onInput, faults = NONE }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const editing = useRef<Editing | null>(null);
  const heard = useRef(onInput);
  const typed = useRef<string[]>([]); // on its way out: when it comes back as `value`, the editor may be further already
  const [state, become] = useState<"loading" | "there" | "plain">("loading");
  heard.current = onInput;
  const newest = useRef(value);
  newest.current = value;
  useEffect(() => {
    let gone = false;
    import("./codemirror").then(
      ({ edit }) => {
        if (gone || !host.current) return;
        editing.current = edit(host.current, label, newest.current, (text) => {
          typed.current.push(text);
          heard.current(text);
        });
        become("there");
      },
      () => !gone && become("plain"),
    );
    return () => {
      gone = true;
      editing.current?.end();
      editing.current = null;
    };
  }, []);
  useEffect(() => {
    const own = typed.current.indexOf(value);
    if (own >= 0) typed.current.splice(0, own + 1);
    else editing.current?.put(value);
  }, [value, state]);
  useEffect(() => editing.current?.mark(faults), [faults, state]);
  return (
    <div class="editor">
      {state === "loading" && <Loading what="the editor" />}
      {state === "plain" && <textarea class="input mono" aria-label={label} spellcheck={false} value={value} onInput={(event) => onInput(event.currentTarget.value)} />}
      <div class="editor-host" ref={host} hidden={state !== "there"} />
    </div>
  );
}
