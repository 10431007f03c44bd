// Labelled form fields. The API's problem with a field is shown below it.
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

interface FieldProps {
  label: string;
  hint?: ComponentChildren;
  problem?: string | null;
}

interface TextProps extends FieldProps {
  value: string;
  onInput: (value: string) => void;
  type?: "text" | "password" | "url" | "email" | "number" | "datetime-local";
  placeholder?: string;
  isRequired?: boolean;
  rows?: number;
  suggestions?: string[];
  isCode?: boolean;
}

export function Field(props: TextProps) {
  const id = useId();
  const about = props.hint || props.problem ? `${id}-about` : undefined;
  const shared = {
    id,
    value: props.value,
    placeholder: props.placeholder,
    required: props.isRequired,
    "aria-describedby": about,
    "aria-invalid": props.problem ? true : undefined,
    class: props.isCode ? "code" : undefined,
    spellcheck: false,
    autocomplete: "off",
    onInput: (event: Event) => props.onInput((event.target as HTMLInputElement).value),
  };
  // The JSX types have one variant per input type and accept no union. The shared attributes fit all of them.
  const kind = { type: props.type ?? "text", ...(props.suggestions ? { list: `${id}-list` } : {}) } as { type: "text" };
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      {props.rows ? <textarea {...shared} rows={props.rows} /> : <input {...shared} {...kind} />}
      {props.suggestions && (
        <datalist id={`${id}-list`}>
          {props.suggestions.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
      )}
      <FieldHelp id={about} {...props} />
    </div>
  );
}

interface ChoiceProps extends FieldProps {
  value: string;
  options: { value: string; label: string }[];
  onChange: (value: string) => void;
}

export function Choice(props: ChoiceProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      <select id={id} value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        {props.options.map((option) => (
          <option key={option.value} value={option.value} selected={option.value === props.value}>
            {option.label}
          </option>
        ))}
      </select>
      <FieldHelp id={undefined} {...props} />
    </div>
  );
}

export function Checkbox(props: { label: ComponentChildren; isOn: boolean; onChange: (isOn: boolean) => void }) {
  return (
    <label class="check">
      <input type="checkbox" checked={props.isOn} onChange={(event) => props.onChange(event.currentTarget.checked)} />
      <span>{props.label}</span>
    </label>
  );
}

function FieldHelp({ id, hint, problem }: FieldProps & { id: string | undefined }) {
  if (!hint && !problem) return null;
  return (
    <div id={id} class="about">
      {problem && <span class="wrong">{problem}</span>} {hint}
    </div>
  );
}
