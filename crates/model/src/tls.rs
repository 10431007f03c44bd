//! TLS settings of an endpoint: a client certificate with its key, and authorities to trust instead of the public ones.
//! Encrypted at rest as one document; the key is never shown, not even in part.

use super::{certificate::Certificate, field_error::FieldError, time::Timestamp};
use aws_lc_rs::digest;
use rustls::{
    InconsistentKeys, RootCertStore,
    crypto::{CryptoProvider, aws_lc_rs as algorithms},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::{CertifiedKey, SingleCertAndKey},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{fmt, sync::Arc};

const PEM_BYTES_MAX: usize = 64 * 1024;
const CERTIFICATES_MAX: usize = 32;

/// The TLS settings as given and stored, in PEM. Each part is optional; a key and its certificate come only together.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsDocument {
    #[serde(rename = "client_certificate", default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<String>,
    #[serde(rename = "client_key", default, skip_serializing_if = "Option::is_none")]
    pub client_key: Option<String>,
    #[serde(rename = "ca", default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

impl TlsDocument {
    /// Reads the fields that a caller gave.
    pub fn read(given: &Map<String, Value>) -> Result<Self, FieldError> {
        const NAMES: [&str; 3] = ["client_certificate", "client_key", "ca"];
        if let Some(unknown) = given.keys().find(|name| !NAMES.contains(&name.as_str())) {
            return Err(FieldError::unknown(format!("tls.{unknown}"), unknown, NAMES.into_iter()));
        }
        let part = |name: &str| match given.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(pem)) => Ok(Some(pem.clone())),
            Some(_) => Err(refused(name, "must be a string")),
        };
        let [client_certificate, client_key, ca] = NAMES.map(part);
        Ok(Self { client_certificate: client_certificate?, client_key: client_key?, ca: ca? })
    }
}

impl fmt::Debug for TlsDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsDocument(…)")
    }
}

/// TLS settings ready for use. Two are equal if they were read from equal documents.
pub struct EndpointTls {
    digest: [u8; 32],
    identity: Option<Arc<CertifiedKey>>,
    roots: Option<Arc<RootCertStore>>,
    /// The endpoint's own certificate, as shown to people.
    pub client_certificate: Option<Certificate>,
    pub authorities: Vec<Certificate>,
}

impl EndpointTls {
    /// Reads a document. An error names the field and never repeats its content.
    pub fn read(document: &TlsDocument) -> Result<Self, FieldError> {
        let chain = document.client_certificate.as_deref().map(|pem| certificates("client_certificate", pem));
        let chain = chain.transpose()?;
        let identity = match (&chain, document.client_key.as_deref()) {
            (None, None) => None,
            (Some(_), None) => return Err(refused("client_key", "is needed with client_certificate")),
            (None, Some(_)) => return Err(refused("client_certificate", "is needed with client_key")),
            (Some(chain), Some(key)) => Some(Arc::new(identity(chain.clone(), key)?)),
        };
        let authorities = document.ca.as_deref().map(|pem| certificates("ca", pem)).transpose()?;
        let roots = authorities.as_deref().map(roots).transpose()?.map(Arc::new);
        if identity.is_none() && roots.is_none() {
            let message = "must hold client_certificate and client_key, or ca; null takes it away";
            return Err(FieldError::new("tls", message));
        }
        let shown = |certificates: &[CertificateDer<'_>]| -> Vec<Certificate> {
            certificates.iter().filter_map(|der| Certificate::read(der)).collect()
        };
        let bytes = serde_json::to_vec(document).map_err(|error| FieldError::new("tls", error))?;
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, &bytes).as_ref());
        Ok(Self {
            digest: hash,
            identity,
            roots,
            client_certificate: chain.and_then(|chain| shown(&chain).into_iter().next()),
            authorities: shown(&authorities.unwrap_or_default()),
        })
    }

    /// Checks that the endpoint's own certificate has not expired at `now`.
    pub fn check_times(&self, now: Timestamp) -> Result<(), FieldError> {
        match &self.client_certificate {
            Some(certificate) if certificate.expires_at <= now => {
                let at = certificate.expires_at.rfc3339_seconds();
                Err(refused("client_certificate", &format!("is expired since {at}")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the authorities that receivers are checked against: the endpoint's own, else `public`.
    pub fn roots(&self, public: &Arc<RootCertStore>) -> Arc<RootCertStore> {
        Arc::clone(self.roots.as_ref().unwrap_or(public))
    }

    /// Returns the client certificate for receivers that ask for one.
    pub fn identity(&self) -> Option<Arc<SingleCertAndKey>> {
        self.identity.clone().map(|identity| Arc::new(SingleCertAndKey::from(identity)))
    }
}

impl PartialEq for EndpointTls {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for EndpointTls {}

impl fmt::Debug for EndpointTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointTls")
            .field("client_certificate", &self.client_certificate)
            .field("authorities", &self.authorities)
            .finish_non_exhaustive()
    }
}

/// Returns the algorithms of every outgoing TLS connection.
pub fn crypto_provider() -> Arc<CryptoProvider> {
    Arc::new(algorithms::default_provider())
}

fn refused(field: &str, message: &str) -> FieldError {
    FieldError::new(format!("tls.{field}"), message)
}

fn certificates(field: &str, pem: &str) -> Result<Vec<CertificateDer<'static>>, FieldError> {
    let message = format!("must be 1 to {CERTIFICATES_MAX} certificates in PEM, of at most 64 KiB together");
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let found = found.unwrap_or_default();
    let fits = pem.len() <= PEM_BYTES_MAX && (1..=CERTIFICATES_MAX).contains(&found.len());
    if fits && found.iter().all(|der| Certificate::read(der).is_some()) {
        Ok(found)
    } else {
        Err(refused(field, &message))
    }
}

fn identity(chain: Vec<CertificateDer<'static>>, key: &str) -> Result<CertifiedKey, FieldError> {
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|_| refused("client_key", "must be one private key in PEM, without a passphrase"))?;
    CertifiedKey::from_der(chain, key, &crypto_provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            refused("client_key", "does not belong to client_certificate")
        }
        rustls::Error::InvalidCertificate(_) => refused("client_certificate", "cannot be used"),
        _ => refused("client_key", "must be an RSA, ECDSA or Ed25519 key"),
    })
}

fn roots(authorities: &[CertificateDer<'static>]) -> Result<RootCertStore, FieldError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots
            .add(authority.clone())
            .map_err(|_| refused("ca", "holds a certificate that cannot be an authority"))?;
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    fn pair(name: &str) -> (String, String) {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    fn read(
        certificate: Option<&str>,
        key: Option<&str>,
        ca: Option<&str>,
    ) -> Result<EndpointTls, FieldError> {
        let given = |text: Option<&str>| text.map(str::to_owned);
        EndpointTls::read(&TlsDocument {
            client_certificate: given(certificate),
            client_key: given(key),
            ca: given(ca),
        })
    }

    #[test]
    fn a_certificate_with_its_key_is_shown_without_the_key() {
        let (certificate, key) = pair("us");
        let tls = read(Some(&certificate), Some(&key), Some(&certificate)).unwrap();
        assert!(tls.client_certificate.as_ref().unwrap().subject.contains("CN=us"));
        assert_eq!(tls.authorities.len(), 1);
        let body = key.lines().nth(1).unwrap();
        let document = TlsDocument { client_key: Some(key.clone()), ..TlsDocument::default() };
        assert!(!format!("{tls:?}{document:?}").contains(body));
        assert!(tls == read(Some(&certificate), Some(&key), Some(&certificate)).unwrap());
        assert!(tls != read(Some(&certificate), Some(&key), None).unwrap());
    }

    #[test]
    fn unusable_tls_settings_are_refused_by_field_without_their_content() {
        let ((certificate, key), (_, other)) = (pair("us"), pair("them"));
        let marker = "-----BEGIN PRIVATE KEY-----\nbWFya2Vy\n-----END PRIVATE KEY-----\n";
        let broken = "-----BEGIN CERTIFICATE-----\nbWFya2Vy\n-----END CERTIFICATE-----\n";
        let many = certificate.repeat(CERTIFICATES_MAX + 1);
        for (given, field) in [
            ((Some(&*certificate), None, None), "tls.client_key"),
            ((None, Some(&*key), None), "tls.client_certificate"),
            ((Some(&*certificate), Some(&*other), None), "tls.client_key"),
            ((Some(&*certificate), Some(marker), None), "tls.client_key"),
            ((Some(&*certificate), Some("bWFya2Vy"), None), "tls.client_key"),
            ((Some(&*certificate), Some(&*certificate), None), "tls.client_key"),
            ((Some(broken), Some(&*key), None), "tls.client_certificate"),
            ((Some(&*key), Some(&*key), None), "tls.client_certificate"),
            ((None, None, Some(broken)), "tls.ca"),
            ((None, None, Some("")), "tls.ca"),
            ((None, None, Some(&*many)), "tls.ca"),
            ((None, None, None), "tls"),
        ] {
            let refusal = read(given.0, given.1, given.2).unwrap_err();
            assert_eq!(refusal.field, field, "{refusal}");
            assert!(!refusal.to_string().contains("bWFya2Vy") && !refusal.to_string().contains("marker"));
        }
    }

    #[test]
    fn an_expired_client_certificate_is_refused() {
        let (certificate, key) = pair("us");
        let tls = read(Some(&certificate), Some(&key), None).unwrap();
        let until = tls.client_certificate.as_ref().unwrap().expires_at;
        assert_eq!(tls.check_times(Timestamp::from_millis(0)), Ok(()));
        assert_eq!(tls.check_times(until).unwrap_err().field, "tls.client_certificate");
    }
}
