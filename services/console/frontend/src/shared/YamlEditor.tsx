import { useEffect, useRef, useState } from "preact/hooks";

import { Loading } from "../ui";
import type { EditorHandle } from "./codemirror";
import type { LineError } from "./lineErrors";
import "./yaml-editor.css";

interface Props {
  label: string;
  value: string;
  onInput: (text: string) => void;
  errors?: readonly LineError[];
}

const NONE: readonly LineError[] = [];

/** A YAML editor that marks errors on their lines; a plain text area if its bundle cannot be loaded. */
export function YamlEditor({ label, value, onInput, errors = NONE }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const editing = useRef<EditorHandle | null>(null);
  const onInputRef = useRef(onInput);
  const pendingInputs = useRef<string[]>([]); // own input not yet returned as `value`, while the editor may have changed again
  const [state, setState] = useState<"loading" | "there" | "plain">("loading");
  onInputRef.current = onInput;
  const latestValue = useRef(value);
  latestValue.current = value;
  useEffect(() => {
    let unmounted = false;
    import("./codemirror").then(
      ({ edit }) => {
        if (unmounted || !host.current) return;
        editing.current = edit(host.current, label, latestValue.current, (text) => {
          pendingInputs.current.push(text);
          onInputRef.current(text);
        });
        setState("there");
      },
      () => !unmounted && setState("plain"),
    );
    return () => {
      unmounted = true;
      editing.current?.end();
      editing.current = null;
    };
  }, []);
  useEffect(() => {
    const own = pendingInputs.current.indexOf(value);
    if (own >= 0) pendingInputs.current.splice(0, own + 1);
    else editing.current?.put(value);
  }, [value, state]);
  useEffect(() => editing.current?.mark(errors), [errors, state]);
  return (
    <div class="editor">
      {state === "loading" && <Loading what="the editor" />}
      {state === "plain" && <textarea class="input mono" aria-label={label} spellcheck={false} value={value} onInput={(event) => onInput(event.currentTarget.value)} />}
      <div class="editor-host" ref={host} hidden={state !== "there"} />
    </div>
  );
}
