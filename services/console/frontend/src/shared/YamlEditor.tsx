import { useEffect, useRef, useState } from "preact/hooks";

import { firstInteraction } from "../lib";
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

/** A YAML editor that marks errors on their lines; a plain text area until a person is there and its bundle has loaded. */
export function YamlEditor({ label, value, onInput, errors = NONE }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const editing = useRef<EditorHandle | null>(null);
  const onInputRef = useRef(onInput);
  const pendingInputs = useRef<string[]>([]); // own input not yet returned as `value`, while the editor may have changed again
  const area = useRef<HTMLTextAreaElement>(null);
  const [there, setThere] = useState(false);
  onInputRef.current = onInput;
  const latestValue = useRef(value);
  latestValue.current = value;
  useEffect(() => {
    let unmounted = false;
    void firstInteraction.then(() => import("./codemirror")).then(
      ({ edit }) => {
        if (unmounted || !host.current) return;
        const typing = area.current !== null && document.activeElement === area.current ? area.current : null;
        host.current.hidden = false; // what is hidden takes no focus
        editing.current = edit(host.current, label, latestValue.current, (text) => {
          pendingInputs.current.push(text);
          onInputRef.current(text);
        });
        if (typing) editing.current.select(typing.selectionStart, typing.selectionEnd);
        setThere(true);
      },
      () => undefined, // the text area stays
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
  }, [value, there]);
  useEffect(() => editing.current?.mark(errors), [errors, there]);
  return (
    <div class="editor">
      {!there && <textarea class="input mono" ref={area} aria-label={label} spellcheck={false} rows={value.split("\n").length} value={value} onInput={(event) => onInput(event.currentTarget.value)} />}
      <div class="editor-host" ref={host} hidden={!there} />
    </div>
  );
}
