//! TLS towards receivers: the public roots and the operator's own authorities. Verification cannot be switched off.

use super::send_error::SendError;
use model::{
    outcome::OutcomeClass,
    target_url::Host,
    tls::{EndpointTls, crypto_provider},
};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
    sign::SingleCertAndKey,
};
use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError, Weak},
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// The operator's certificate file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("the extra certificates are not valid PEM")]
    Pem(#[source] rustls::pki_types::pem::Error),
    #[error("the extra certificates hold no certificate")]
    Empty,
    #[error("an extra certificate cannot be used")]
    Certificate(#[source] rustls::Error),
}

/// The public roots and the certificates in `extra_ca_pem`.
pub(super) fn roots(extra_ca_pem: Option<&[u8]>) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(pem) = extra_ca_pem {
        let known = roots.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate.map_err(TlsError::Pem)?).map_err(TlsError::Certificate)?;
        }
        if roots.len() == known {
            return Err(TlsError::Empty);
        }
    }
    Ok(Arc::new(roots))
}

/// HTTP/1.1 over TLS 1.2 or 1.3, verified against `roots`.
pub(super) fn connector(roots: Arc<RootCertStore>) -> Result<TlsConnector, TlsError> {
    let config = config(roots, None).map_err(TlsError::Certificate)?;
    Ok(TlsConnector::from(Arc::new(config)))
}

/// TLS for a mail server, verified against `roots`, without the protocol name of HTTP.
pub(super) fn mail_connector(roots: Arc<RootCertStore>) -> Result<TlsConnector, TlsError> {
    let mut config = config(roots, None).map_err(TlsError::Certificate)?;
    config.alpn_protocols.clear();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The client configurations of endpoints with TLS settings of their own. Each is made at its first use and kept until the
/// endpoint changes.
#[derive(Default)]
pub(super) struct EndpointConfigs(Mutex<HashMap<usize, EndpointConfig>>);

/// A configuration with its settings. The weak reference keeps their address from being used again.
type EndpointConfig = (Weak<EndpointTls>, Arc<ClientConfig>);

impl EndpointConfigs {
    /// Returns TLS under an endpoint's own settings: its certificate, and its authorities instead of `public`.
    pub(super) fn connector(
        &self,
        tls: &Arc<EndpointTls>,
        public: &Arc<RootCertStore>,
    ) -> Result<TlsConnector, SendError> {
        let mut configs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let address = Arc::as_ptr(tls).addr();
        if let Some((_, config)) = configs.get(&address) {
            return Ok(TlsConnector::from(config.clone()));
        }
        let made = config(tls.roots(public), tls.identity())
            .map_err(|_| SendError::new(OutcomeClass::Local, "the endpoint's TLS settings cannot be used"))?;
        let made = Arc::new(made);
        configs.retain(|_, (settings, _)| settings.strong_count() > 0);
        configs.insert(address, (Arc::downgrade(tls), made.clone()));
        Ok(TlsConnector::from(made))
    }
}

fn config(
    roots: Arc<RootCertStore>,
    identity: Option<Arc<SingleCertAndKey>>,
) -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(crypto_provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => builder.with_client_cert_resolver(identity),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Runs the TLS handshake and verifies that the peer is `host`.
pub(super) async fn secure<S: AsyncRead + AsyncWrite + Unpin>(
    connector: &TlsConnector,
    host: &Host,
    stream: S,
) -> Result<Box<TlsStream<S>>, SendError> {
    let name = match host {
        Host::Address(ip) => ServerName::from(*ip),
        Host::Name(name) => ServerName::try_from(name.clone())
            .map_err(|_| SendError::new(OutcomeClass::Tls, "the host name cannot be used with TLS"))?,
    };
    connector.connect(name, stream).await.map(Box::new).map_err(|error| handshake_error(&error))
}

/// Describes the TLS alert that the peer sent before it closed. In TLS 1.3 an alert about a client's certificate comes only
/// after the handshake.
pub(super) fn alert_message(error: &io::Error) -> Option<&'static str> {
    let rustls::Error::AlertReceived(alert) = error.get_ref()?.downcast_ref()? else { return None };
    Some(match alert {
        AlertDescription::CertificateRequired => "the server asks for a client certificate",
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied => "the server does not accept the client certificate",
        _ => "the server broke off the TLS handshake",
    })
}

fn handshake_error(error: &io::Error) -> SendError {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let words = match tls {
        Some(rustls::Error::InvalidCertificate(why)) => certificate_message(why),
        Some(rustls::Error::AlertReceived(_)) => alert_message(error).unwrap_or("the TLS handshake failed"),
        Some(rustls::Error::PeerIncompatible(_)) => {
            "the server offers no TLS version or cipher that we accept"
        }
        Some(rustls::Error::NoCertificatesPresented) => "the server presented no certificate",
        Some(rustls::Error::InvalidMessage(_)) => "the server does not speak TLS on this port",
        Some(_) => "the TLS handshake failed",
        None => {
            let io = SendError::io(error);
            return match io.class {
                OutcomeClass::Local => io,
                _ => SendError::new(OutcomeClass::Tls, "the connection was closed during the TLS handshake"),
            };
        }
    };
    SendError::new(OutcomeClass::Tls, words)
}

fn certificate_message(why: &CertificateError) -> &'static str {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "the certificate is expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the certificate is for another host name"
        }
        CertificateError::UnknownIssuer => "the certificate is not signed by a trusted authority",
        CertificateError::Revoked => "the certificate is revoked",
        CertificateError::BadSignature => "the signature of the certificate is wrong",
        _ => "the certificate is not acceptable",
    }
}
