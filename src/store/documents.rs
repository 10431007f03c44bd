//! The types that are stored as JSON, in a column or encrypted. Nothing else is read or written as such a document.
//!
//! To add one: give it a line in the list below and a golden document in `golden/`, which the tests hold against the type.

use crate::domain::{
    app::AppSettings,
    audit::AuditDetail,
    endpoint::{Disabled, EndpointSettings},
    event_type::EventTypeDocument,
    inspection::InspectionReport,
    notice::{Digest, EventRef, NoticeDetails},
    portal_theme::PortalTheme,
    replay::ReplaySelection,
    statistics::ResultCode,
    tls::TlsDocument,
};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;

/// A type that may be stored as a JSON document.
pub trait StoredDocument: Serialize {}

impl<T: Serialize> StoredDocument for [T] where Vec<T>: StoredDocument {}

impl<T: StoredDocument + ?Sized> StoredDocument for &T {}

/// Calls `$each!` with every stored type: its golden document in `golden/`, then the type.
macro_rules! stored_documents {
    ($each:ident) => {
        $each! {
            "app_settings": AppSettings,
            "endpoint_settings": EndpointSettings,
            "disabled": Disabled,
            "portal_theme": PortalTheme,
            "event_type": EventTypeDocument,
            "audit_detail": AuditDetail,
            "replay_selection": ReplaySelection,
            "inspection_report": InspectionReport,
            "notice_details": NoticeDetails,
            "notice_event": EventRef,
            "notice_digest": Digest,
            "statistics_latency": BTreeMap<u8, u64>,
            "statistics_endings": BTreeMap<ResultCode, u64>,
            "statistics_log": Vec<crate::store::sql::LogLine>,
            "encrypted_headers": Vec<(String, String)>,
            "encrypted_tls": TlsDocument,
        }
    };
}

macro_rules! mark {
    ($($file:literal: $type:ty),+ $(,)?) => { $(impl StoredDocument for $type {})+ };
}

stored_documents!(mark);

/// Reads a stored document. Unknown fields are refused, as are missing ones that have no default.
pub fn read<T: StoredDocument + DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(text)
}

/// Returns a document as it is stored.
pub fn write<T: StoredDocument + ?Sized>(document: &T) -> serde_json::Result<String> {
    serde_json::to_string(document)
}

#[cfg(test)]
mod tests;
