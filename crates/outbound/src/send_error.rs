//! Send errors: an outcome class, and text that a support person understands.
//!
//! The text names no address and no secret. Errors of this machine have a class of their own (`OutcomeClass::Local`),
//! because they must not count against the receiver.

use super::tls;
use model::{address_policy::ForbiddenAddress, outcome::OutcomeClass};
use rustix::io::Errno;
use std::{borrow::Cow, fmt::Display, io};

#[derive(Debug)]
pub(super) struct SendError {
    pub(super) class: OutcomeClass,
    pub(super) message: Cow<'static, str>,
}

impl SendError {
    pub(super) fn new(class: OutcomeClass, words: impl Into<Cow<'static, str>>) -> Self {
        Self { class, message: words.into() }
    }

    /// A socket error while connecting or exchanging.
    pub(super) fn io(error: &io::Error) -> Self {
        match (local_message(error), tls::alert_message(error)) {
            (Some(words), _) => Self::new(OutcomeClass::Local, words),
            (None, Some(words)) => Self::new(OutcomeClass::Tls, words),
            (None, None) => Self::new(OutcomeClass::Connect, peer_message(error)),
        }
    }

    /// The operator's proxy fails: not counted against the receiver.
    pub(super) fn proxy(words: impl Display) -> Self {
        Self::new(OutcomeClass::Local, format!("the proxy {words}"))
    }

    /// The kernel has no route to an address: no byte was sent, and the failure is not counted against the receiver.
    pub(super) fn no_route(error: &io::Error) -> Self {
        match local_message(error) {
            Some(words) => Self::new(OutcomeClass::Local, words),
            None => Self::new(OutcomeClass::Local, "this machine has no route to the address"),
        }
    }

    /// Maps an error of the HTTP library during an exchange.
    pub(super) fn exchange(error: &hyper::Error) -> Self {
        if let Some(io) = io_source(error) {
            return Self::io(io);
        }
        let words = if error.is_parse_too_large() {
            "the head of the answer is too large"
        } else if error.is_parse() {
            "the answer is not valid HTTP"
        } else if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
            "the connection was closed before a complete answer came"
        } else {
            "the connection broke before a complete answer came"
        };
        Self::new(OutcomeClass::Connect, words)
    }
}

impl From<ForbiddenAddress> for SendError {
    fn from(refused: ForbiddenAddress) -> Self {
        Self::new(OutcomeClass::AddressRefused, refused.to_string())
    }
}

fn io_source(error: &hyper::Error) -> Option<&io::Error> {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(io) = cause.downcast_ref() {
            return Some(io);
        }
        source = cause.source();
    }
    None
}

fn local_message(error: &io::Error) -> Option<&'static str> {
    Some(match Errno::from_io_error(error)? {
        Errno::MFILE | Errno::NFILE => "this machine has no file handles left",
        Errno::NOBUFS | Errno::NOMEM => "this machine has no memory left for the network",
        Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => "this machine has no ports left",
        Errno::NETDOWN => "this machine has no network",
        Errno::ACCESS | Errno::PERM => "this machine forbids the connection",
        Errno::AFNOSUPPORT => "this machine does not speak the address's protocol",
        _ => return None,
    })
}

fn peer_message(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::ConnectionReset => "connection reset",
        io::ErrorKind::TimedOut => "the host did not answer",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "the host cannot be reached",
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => "the answer is not valid HTTP",
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => {
            "the connection was closed before a complete answer came"
        }
        _ => "the connection broke before a complete answer came",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_this_machine_have_the_class_local() {
        for ours in [
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOBUFS,
            Errno::NOMEM,
            Errno::ADDRNOTAVAIL,
            Errno::NETDOWN,
            Errno::PERM,
            Errno::AFNOSUPPORT,
        ] {
            assert_eq!(SendError::io(&ours.into()).class, OutcomeClass::Local, "{ours:?}");
        }
        for theirs in [Errno::CONNREFUSED, Errno::CONNRESET, Errno::TIMEDOUT, Errno::HOSTUNREACH, Errno::PIPE]
        {
            assert_eq!(SendError::io(&theirs.into()).class, OutcomeClass::Connect, "{theirs:?}");
        }
        // From the kernel before any byte is sent the error is local; from the network later it is the receiver's.
        assert_eq!(SendError::no_route(&Errno::NETUNREACH.into()).class, OutcomeClass::Local);
        assert_eq!(SendError::io(&Errno::NETUNREACH.into()).class, OutcomeClass::Connect);
    }
}
