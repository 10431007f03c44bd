//! Verifies Standard Webhooks signatures: HMAC-SHA256 over `id.timestamp.body`, in base64, behind `v1,`.

use anyhow::{Context, Result};
use aws_lc_rs::hmac;
use base64::{Engine, engine::general_purpose::STANDARD};

pub struct Key(hmac::Key);

impl Key {
    /// The secret as an API prints it: base64, usually behind `whsec_`.
    pub fn of_secret(secret: &str) -> Result<Self> {
        let encoded = secret.strip_prefix("whsec_").unwrap_or(secret);
        let bytes = STANDARD.decode(encoded).context("the endpoint's secret is not base64")?;
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// Whether one of the signatures, which stand with spaces between them, is right.
    pub fn verifies(&self, id: &[u8], timestamp: &[u8], signatures: &[u8], body: &[u8]) -> bool {
        let mut context = hmac::Context::with_key(&self.0);
        for part in [id, b".", timestamp, b".", body] {
            context.update(part);
        }
        let right = STANDARD.encode(context.sign());
        signatures.split(|byte| *byte == b' ').any(|one| one.strip_prefix(b"v1,") == Some(right.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example that the specification of Standard Webhooks gives.
    #[test]
    fn the_published_example_verifies_and_nothing_else_does() {
        let key = Key::of_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let verifies = |signatures: &str, body: &[u8]| {
            key.verifies(b"msg_p5jXN8AQM9LWM0D4loKWxJek", b"1614265330", signatures.as_bytes(), body)
        };
        let (right, body) = ("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", br#"{"test": 2432232314}"#);
        assert!(verifies(right, body));
        assert!(verifies(&format!("v1a,other v1,bm9wZQ== {right}"), body));
        assert!(!verifies(right, br#"{"test": 2432232315}"#));
        assert!(!verifies("v1,bm9wZQ==", body));
        assert!(!verifies("", body));
    }
}
