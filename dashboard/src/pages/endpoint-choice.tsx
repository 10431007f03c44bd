import type { Endpoint } from "../api/schema";
import { Choice } from "../components/field";

interface Props {
  endpoints: Endpoint[];
  value: string;
  onChange: (value: string) => void;
}

export function EndpointChoice({ endpoints, value, onChange }: Props) {
  return <Choice label="Endpoint" value={value} options={endpointOptions(endpoints, value)} onChange={onChange} />;
}

/** Returns the options. They always include the chosen endpoint, even if it was deleted or is beyond the listed ones. */
export function endpointOptions(endpoints: readonly Endpoint[], value: string): { value: string; label: string }[] {
  const options = [
    { value: "", label: "Every endpoint" },
    ...endpoints.map((each) => ({ value: each.id, label: each.description || each.url })),
  ];
  return options.some((each) => each.value === value) ? options : [...options, { value, label: value }];
}
