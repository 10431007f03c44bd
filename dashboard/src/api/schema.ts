// Short names for what the API answers, all out of its own description.
import type { components } from "./schema.gen";

type Schemas = components["schemas"];
export type App = Schemas["App"];
export type Endpoint = Schemas["Endpoint"];
export type Event = Schemas["Event"];
export type EventDetail = Schemas["EventDetail"];
export type Delivery = Schemas["Delivery"];
export type DeliveryDetail = Schemas["DeliveryDetail"];
export type Attempt = Schemas["Attempt"];
export type DeadLetter = Schemas["DeadLetter"];
export type Replay = Schemas["Replay"];
export type Contract = Schemas["Contract"];
export type Timeline = Schemas["Timeline"];
export type EventType = Schemas["EventType"];
export type Key = Schemas["Key"];
export type AuditEntry = Schemas["AuditEntry"];
export type Inspection = Schemas["Inspection"];
export type InspectionCheck = Schemas["InspectionCheck"];
export type System = Schemas["System"];
export type Secrets = Schemas["Secrets"];
export type Session = Schemas["Session"];
export type PortalTheme = Schemas["PortalTheme"];
export type PortalLink = Schemas["PortalLink"];
export type Notice = Schemas["Notice"];
export type EndpointHealth = Schemas["EndpointHealth"];
export type Stats = Schemas["Stats"];
export type ProblemView = Schemas["Problem"];
