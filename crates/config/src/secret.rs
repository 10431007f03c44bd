//! Secret text: `Debug` prints it redacted, and only `reveal` returns it.

use std::fmt;

#[derive(Clone, PartialEq, Eq)]
pub struct HiddenText(String);

impl HiddenText {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for HiddenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}
