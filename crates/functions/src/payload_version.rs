//! A payload version of an event type, ready for use: a function that makes it from the data as published, and a schema that
//! the result must fit. Both may be absent.

use super::{
    event_type::check_source,
    payload_function::{self, FunctionError, FunctionLimits},
    schema::{Schema, SchemaCheckError, SchemaMismatch},
};
use model::{
    event_type::{VERSION_NAME_FORM, VersionDocument, is_version_name},
    field_error::FieldError,
};
use std::{cell::RefCell, rc::Rc, sync::Arc};

/// A version ready for use.
#[derive(Debug)]
pub struct PayloadVersion {
    pub name: Arc<str>,
    function: Option<String>,
    schema: Option<Schema>,
}

/// The reason why a version could not be made from an event's data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConversionError {
    #[error("{0}")]
    Function(#[from] FunctionError),
    #[error("the result {0}")]
    Result(SchemaMismatch),
    #[error("the data {0}")]
    Data(SchemaMismatch),
    #[error("holding it against the schema did not finish in time")]
    CheckOutOfTime,
}

impl ConversionError {
    /// Whether another try could succeed. Every other failure is deterministic.
    pub fn is_out_of_time(&self) -> bool {
        match self {
            Self::Function(error) => error.is_out_of_time,
            Self::Result(_) | Self::Data(_) => false,
            Self::CheckOutOfTime => true,
        }
    }
}

impl PayloadVersion {
    pub fn compile(document: &VersionDocument) -> Result<Self, FieldError> {
        if !is_version_name(&document.name) {
            return Err(FieldError::new("name", format!("must be {VERSION_NAME_FORM}")));
        }
        document.function.as_deref().map_or(Ok(()), check_source)?;
        let schema = document.schema.as_ref().map(Schema::compile).transpose();
        Ok(Self {
            name: document.name.as_str().into(),
            function: document.function.clone(),
            schema: schema.map_err(|message| FieldError::new("schema", message))?,
        })
    }

    pub fn has_function(&self) -> bool {
        self.function.is_some()
    }

    pub fn has_schema(&self) -> bool {
        self.schema.is_some()
    }

    /// Whether this version is the data as published, unchecked.
    pub fn is_as_published(&self) -> bool {
        self.function.is_none() && self.schema.is_none()
    }

    /// Makes this version of the data and validates it. May take long; stops soon after `keep_going` returns false.
    pub fn convert(
        &self,
        data: &[u8],
        keep_going: impl FnMut() -> bool + 'static,
    ) -> Result<Vec<u8>, ConversionError> {
        let clock = Rc::new(RefCell::new(keep_going));
        let ask = || {
            let clock = clock.clone();
            move || (clock.borrow_mut())()
        };
        let made = match &self.function {
            Some(source) => payload_function::run(source, data, &FunctionLimits::default(), ask())?,
            None => data.to_vec(),
        };
        match self.check(&made, ask()) {
            Ok(()) => Ok(made),
            Err(SchemaCheckError::Mismatch(mismatch)) if self.has_function() => {
                Err(ConversionError::Result(mismatch))
            }
            Err(SchemaCheckError::Mismatch(mismatch)) => Err(ConversionError::Data(mismatch)),
            Err(SchemaCheckError::OutOfTime) => Err(ConversionError::CheckOutOfTime),
        }
    }

    /// Validates data of this version against its schema, if it has one. Stops soon after `keep_going` returns false.
    pub fn check(
        &self,
        data: &[u8],
        keep_going: impl FnMut() -> bool + 'static,
    ) -> Result<(), SchemaCheckError> {
        self.schema.as_ref().map_or(Ok(()), |schema| schema.check(data, keep_going))
    }
}
