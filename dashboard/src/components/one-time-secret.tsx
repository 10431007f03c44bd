import type { ComponentChildren } from "preact";
import { Copyable } from "./copy";
import { Dialog } from "./dialog";

interface Props {
  title: string;
  /** Says what the secret is for, and that it is shown only once. */
  about: string;
  secret: string;
  onClose: () => void;
  children?: ComponentChildren;
}

/** Shows a new secret, which the user must copy now. */
export function OneTimeSecret({ title, about, secret, onClose, children }: Props) {
  return (
    <Dialog title={title} onClose={onClose}>
      <div class="secret">
        <p>{about}</p>
        <Copyable text={secret} />
      </div>
      {children && <p class="about">{children}</p>}
    </Dialog>
  );
}
