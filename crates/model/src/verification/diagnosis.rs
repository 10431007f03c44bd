//! Possible causes of a failed verification, in words, with advice.

use super::{body_variants::BodyVariant, keys::KeyMistake};
use std::fmt;

/// A possible cause of a failed verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Diagnosis {
    /// The signature is that of this variant of the body.
    Body(BodyVariant),
    /// The signature was made with the key of this mistake.
    Key(KeyMistake),
    /// The signature is that of another text than the contract's.
    SignedText {
        signed: &'static str,
        contract: String,
    },
    /// The signature is right, but encoded differently.
    Encoding {
        found: &'static str,
        contract: &'static str,
    },
    /// The signature is right, but the text that the contract writes around it is missing.
    BareSignature {
        contract: String,
    },
    /// The request is genuine under another contract.
    OtherContract(String),
    /// The signature header of another contract is present.
    OtherHeader {
        header: String,
        contract: String,
    },
    EmptyBody,
    /// The body cannot be the one that was sent.
    Rewritten(&'static str),
    /// No other cause was found.
    SecretOrBody {
        signatures: usize,
    },
}

impl Diagnosis {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Body(BodyVariant::Json { .. }) => "reserialised_body",
            Self::Body(_) => "changed_body",
            Self::Key(_) => "key_use",
            Self::SignedText { .. } => "signed_text",
            Self::Encoding { .. } => "encoding",
            Self::BareSignature { .. } => "bare_signature",
            Self::OtherContract(_) => "other_contract",
            Self::OtherHeader { .. } => "other_header",
            Self::EmptyBody => "empty_body",
            Self::Rewritten(_) => "rewritten_body",
            Self::SecretOrBody { .. } => "wrong_secret_or_body",
        }
    }

    pub fn advice(&self) -> String {
        match self {
            Self::Body(_) | Self::Rewritten(_) | Self::EmptyBody => {
                "Verify the bytes of the body as they came in, before anything parses, decodes or trims them.".into()
            }
            Self::Key(_) => "Make the key out of the secret as the contract says; `posthaste contracts NAME` tells how.".into(),
            Self::SignedText { contract, .. } => format!("Sign and verify {contract}."),
            Self::Encoding { contract, .. } => format!("Write the signature in {contract}."),
            Self::BareSignature { contract } => format!("The header must be {contract}."),
            Self::OtherContract(name) => format!("Verify with --contract {name}, or set the endpoint's contract."),
            Self::OtherHeader { contract, .. } => format!("If the endpoint has that contract, verify with --contract {contract}."),
            Self::SecretOrBody { .. } => {
                "Compare the secret with `GET …/endpoints/{endpoint}/secret`, and look whether a proxy or a framework changed the body.".into()
            }
        }
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(spelling) => {
                write!(
                    f,
                    "the signature is right for this body {spelling}: it was changed on its way to the check"
                )
            }
            Self::Key(by) => write!(
                f,
                "the signature was made with another key out of the same secret: {}",
                describe_key_mistake(*by)
            ),
            Self::SignedText { signed, contract } => {
                write!(f, "what was signed is {signed}, where the contract signs {contract}")
            }
            Self::Encoding { found, contract } => {
                write!(
                    f,
                    "the signature is right, but it is written in {found}, where the contract has {contract}"
                )
            }
            Self::BareSignature { contract } => {
                write!(f, "the signature is right, but it stands alone, where the contract writes {contract}")
            }
            Self::OtherContract(name) => write!(f, "the request is genuine under the contract {name}"),
            Self::OtherHeader { header, contract } => {
                write!(
                    f,
                    "there is a header {header}, which is where the contract {contract} has its signatures"
                )
            }
            Self::EmptyBody => f.write_str("the body is empty, and no request that Posthaste sends is"),
            Self::Rewritten(why) => write!(f, "the body is not as it was sent: {why}"),
            Self::SecretOrBody { signatures: 1 } => f.write_str(
                "either the secret is another one, or the body was changed in a way that cannot be guessed",
            ),
            Self::SecretOrBody { signatures } => write!(
                f,
                "none of the {signatures} signatures fits: either the secret is none of those it was signed with, or the body was changed"
            ),
        }
    }
}

fn describe_key_mistake(by: KeyMistake) -> &'static str {
    match by {
        KeyMistake::WholeText => "the whole text of it, where base64 is to be decoded",
        KeyMistake::TextWithoutPrefix => "the text of it without its prefix",
        KeyMistake::Decoded => "what follows the prefix, decoded from base64",
        KeyMistake::FromHex => "decoded from hex",
        KeyMistake::WithNewline => "with a line break at its end, as a file has one",
        KeyMistake::Trimmed => "without the spaces or line breaks around it",
    }
}
