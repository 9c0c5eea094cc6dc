import type { ComponentChildren } from "preact";

interface Props {
  primary?: boolean;
  danger?: boolean;
  quiet?: boolean;
  disabled?: boolean;
  title?: string;
  submit?: boolean;
  onClick?: () => void;
  children: ComponentChildren;
}

export function Button({ primary, danger, quiet, disabled, title, submit, onClick, children }: Props) {
  const kind = ["button", primary && "primary", danger && "danger", quiet && "quiet"].filter(Boolean).join(" ");
  return (
    <button class={kind} type={submit ? "submit" : "button"} disabled={disabled} title={title} onClick={onClick}>
      {children}
    </button>
  );
}
