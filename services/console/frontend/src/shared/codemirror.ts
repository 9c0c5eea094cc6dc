// The CodeMirror editor, in a bundle loaded on demand.
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { Annotation, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

import { errorRanges, type LineError } from "./lineErrors";

const fromOutside = Annotation.define<boolean>();

const theme = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--surface)", fontSize: "0.88rem" },
  "&.cm-focused": { outline: "2px solid var(--focus)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--ink)", paddingBlock: "8px" },
  ".cm-content, .cm-gutter": { minHeight: "260px" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--ground)", color: "var(--ink-faint)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--accent-soft) 45%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--accent-soft)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--ink)", border: "1px solid var(--line-strong)", borderRadius: "6px" },
  ".cm-diagnostic": { padding: "6px 10px", maxWidth: "60ch" },
  ".cm-diagnostic-error": { borderLeft: "4px solid var(--bad)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "3px" },
  ".cm-lint-marker-error": { content: "none", width: "0.8em", height: "0.8em", background: "var(--bad)", borderRadius: "2px", transform: "rotate(45deg)" },
});

const colours = HighlightStyle.define([
  { tag: [tags.definition(tags.propertyName), tags.propertyName], color: "var(--accent)" },
  { tag: tags.comment, color: "var(--ink-faint)", fontStyle: "italic" },
  { tag: [tags.string, tags.attributeValue], color: "var(--good)" },
  { tag: [tags.punctuation, tags.separator], color: "var(--ink-soft)" },
  { tag: tags.meta, color: "var(--warn)" },
]);

export interface EditorHandle {
  put(text: string): void;
  mark(errors: readonly LineError[]): void;
  /** Takes the focus, with this selection. */
  select(from: number, to: number): void;
  end(): void;
}

/**
 * Creates an editor in a shadow root, where CodeMirror uses adopted style sheets, which `style-src 'self'` permits; elsewhere it would
 * insert a <style> element, which is blocked. Tab moves the focus out, for keyboard users.
 */
export function edit(host: HTMLElement, label: string, text: string, onInput: (text: string) => void): EditorHandle {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(), lintGutter(), history(), drawSelection(), highlightSpecialChars(), highlightActiveLine(), indentUnit.of("  "), yaml(),
        syntaxHighlighting(colours), keymap.of([...defaultKeymap, ...historyKeymap, ...lintKeymap]), theme, EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": label, "aria-multiline": "true", tabindex: "0" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !update.transactions.some((each) => each.annotation(fromOutside))) onInput(update.state.doc.toString());
        }),
      ],
    }),
  }); // prettier-ignore
  return {
    put(next) {
      if (next !== view.state.doc.toString()) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next }, annotations: fromOutside.of(true) });
    },
    mark(errors) {
      const { doc } = view.state;
      const found: Diagnostic[] = errorRanges(doc.toString(), errors).map((each) => ({ ...each, severity: "error" as const }));
      view.dispatch(setDiagnostics(view.state, found));
    },
    select(from, to) {
      const { length } = view.state.doc;
      view.dispatch({ selection: { anchor: Math.min(from, length), head: Math.min(to, length) }, scrollIntoView: true });
      view.focus();
    },
    end: () => view.destroy(),
  };
}
