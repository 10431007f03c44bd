//! TLS towards receivers: the public roots, the operator's own authorities on top, and no way to switch it off.

use super::fault::Fault;
use crate::domain::{outcome::Class, target::Host};
use rustls::{
    CertificateError, ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use std::{io, sync::Arc};
use tokio::net::TcpStream;
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

/// HTTP/1.1 over TLS 1.2 or 1.3, verified against the public roots and the certificates in `extra_ca_pem`.
pub(super) fn connector(extra_ca_pem: Option<&[u8]>) -> Result<TlsConnector, TlsError> {
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
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Certificate)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Proves that the peer is `host`, or fails.
pub(super) async fn secure(
    connector: &TlsConnector,
    host: &Host,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, Fault> {
    let name = match host {
        Host::Address(ip) => ServerName::from(*ip),
        Host::Name(name) => ServerName::try_from(name.clone())
            .map_err(|_| Fault::new(Class::Tls, "the host name cannot be used with TLS"))?,
    };
    connector.connect(name, stream).await.map_err(|error| fault(&error))
}

fn fault(error: &io::Error) -> Fault {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let words = match tls {
        Some(rustls::Error::InvalidCertificate(why)) => certificate_words(why),
        Some(rustls::Error::AlertReceived(_)) => "the server broke off the TLS handshake",
        Some(rustls::Error::PeerIncompatible(_)) => {
            "the server offers no TLS version or cipher that we accept"
        }
        Some(rustls::Error::NoCertificatesPresented) => "the server presented no certificate",
        Some(rustls::Error::InvalidMessage(_)) => "the server does not speak TLS on this port",
        Some(_) => "the TLS handshake failed",
        None => {
            let io = Fault::io(error);
            return match io.class {
                Class::Local => io,
                _ => Fault::new(Class::Tls, "the connection was closed during the TLS handshake"),
            };
        }
    };
    Fault::new(Class::Tls, words)
}

fn certificate_words(why: &CertificateError) -> &'static str {
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
