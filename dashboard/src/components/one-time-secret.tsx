import type { ComponentChildren } from "preact";
import { Copyable } from "./copy";
import { Dialog } from "./dialog";

interface Props {
  title: string;
  /** What it is for, and that it is seen this once. */
  about: string;
  secret: string;
  onClose: () => void;
  children?: ComponentChildren;
}

/** Something that was just made and must be copied now. */
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
