//! Payload functions and schemas: the event-type catalogue with its JavaScript functions and JSON Schemas, ready for use.
//!
//! No other module knows the JavaScript engine or the schema compiler.

mod catalogue;
mod event_type;
mod payload_function;
mod payload_version;
mod publish_rules;
mod schema;

pub use catalogue::{Catalogue, PinnedVersion, UnknownVersion};
pub use event_type::EventType;
pub use payload_function::FunctionError;
pub use payload_version::{ConversionError, PayloadVersion};
pub use publish_rules::PublishRuleError;
pub use schema::{SchemaCheckError, SchemaMismatch};
