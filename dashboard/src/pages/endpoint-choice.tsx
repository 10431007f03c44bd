import type { Endpoint } from "../api/schema";
import { Choice } from "../parts/field";

interface Props {
  endpoints: Endpoint[];
  value: string;
  onChange: (value: string) => void;
}

export function EndpointChoice({ endpoints, value, onChange }: Props) {
  const options = endpoints.map((each) => ({ value: each.id, label: each.description || each.url }));
  return (
    <Choice label="Endpoint" value={value} options={[{ value: "", label: "Every endpoint" }, ...options]} onChange={onChange} />
  );
}
