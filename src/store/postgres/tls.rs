//! TLS to the database server, as its address asks for.

use super::open::PostgresOpenError;
use crate::domain::{
    database_address::{DatabaseAddress, Security},
    tls::crypto_provider,
};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use std::{
    future::Future,
    io,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Socket,
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream},
};
use tokio_rustls::{TlsConnector, client};

/// Error of TLS with the server. Not an `io::Error`, which would look as if the server were away.
#[derive(Debug, thiserror::Error)]
pub(super) enum DatabaseTlsError {
    #[error("its certificate is not accepted ({}); see sslmode and sslrootcert", message(.0))]
    Certificate(CertificateError),
    #[error("{0}")]
    Other(String),
}

impl From<io::Error> for DatabaseTlsError {
    fn from(error: io::Error) -> Self {
        match error.get_ref().and_then(|cause| cause.downcast_ref()) {
            Some(rustls::Error::InvalidCertificate(why)) => Self::Certificate(why.clone()),
            _ => Self::Other(error.to_string()),
        }
    }
}

fn message(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer => "no trusted authority has signed it".to_owned(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another name".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it is expired".to_owned(),
        other => other.to_string(),
    }
}

#[derive(Clone)]
pub(super) struct DatabaseTlsConnector(Arc<ClientConfig>);

impl DatabaseTlsConnector {
    pub(super) fn of(address: &DatabaseAddress) -> Result<Self, PostgresOpenError> {
        let provider = crypto_provider();
        let unusable = |error: &rustls::Error| PostgresOpenError::Certificates(error.to_string());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&error))?;
        let builder = match &address.security {
            Security::Verified(authorities) => builder.with_root_certificates(roots(authorities.as_deref())?),
            Security::Plain | Security::IfOffered | Security::Encrypted => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
            }
        };
        Ok(Self(Arc::new(builder.with_no_client_auth())))
    }
}

fn roots(authorities: Option<&Path>) -> Result<RootCertStore, PostgresOpenError> {
    let Some(path) = authorities else {
        return Ok(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() });
    };
    let unusable = |why: String| PostgresOpenError::Certificates(format!("{}: {why}", path.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unusable(error.to_string()))? {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() { Err(unusable("there is no certificate in it".to_owned())) } else { Ok(roots) }
}

/// Accepts any certificate. The server must still prove that it has the certificate's key.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl MakeTlsConnect<Socket> for DatabaseTlsConnector {
    type Stream = Encrypted;
    type TlsConnect = TlsTarget;
    type Error = DatabaseTlsError;

    fn make_tls_connect(&mut self, host: &str) -> Result<TlsTarget, DatabaseTlsError> {
        // A socket has no name, and no TLS.
        let host = if host.is_empty() { "localhost" } else { host };
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| DatabaseTlsError::Other(format!("{host} cannot be used with TLS")))?;
        Ok(TlsTarget { connector: TlsConnector::from(self.0.clone()), name })
    }
}

/// TLS connector for one server.
pub(super) struct TlsTarget {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl TlsConnect<Socket> for TlsTarget {
    type Stream = Encrypted;
    type Error = DatabaseTlsError;
    type Future = Pin<Box<dyn Future<Output = Result<Encrypted, DatabaseTlsError>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move { Ok(Encrypted(self.connector.connect(self.name, stream).await?)) })
    }
}

pub(super) struct Encrypted(client::TlsStream<Socket>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
