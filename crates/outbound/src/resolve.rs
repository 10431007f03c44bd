//! DNS resolver, used for every new connection.
//!
//! A failure of the name (no server answers for it) and a failure of our resolver are separate errors, because only
//! the first counts against the receiver.

use std::{
    collections::HashMap,
    future::Future,
    io,
    net::{IpAddr, ToSocketAddrs},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

/// How long one look-up may take, within the deadline of the attempt.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);

/// A look-up holds a thread until the system library gives up, which can be long after we did.
const LOOKUPS_AT_ONCE: usize = 128;
const LOOKUPS_PER_NAME: usize = 4;

/// How long a look-up waits for a free thread before it fails as `Unavailable`, which does not count against the
/// receiver.
const LOOKUP_WAIT_MAX: Duration = Duration::from_secs(1);

const HOSTS_FILE: &str = "/etc/hosts";

/// How long one answer proves that the resolver works, so that other failures are the names' own.
const RESOLVER_PROOF_TTL: Duration = Duration::from_secs(30);

/// Finds the addresses of a name. The caller checks all of them, and one forbidden address refuses the name.
pub trait Resolver: Send + Sync {
    /// Answers within a few seconds. The name has no trailing dot and must be looked up as it is: no search list.
    fn resolve<'a>(&'a self, name: &'a str) -> ResolveFuture<'a>;
}

pub type ResolveFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<IpAddr>, ResolveError>> + Send + 'a>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    #[error("the host name was not found")]
    NotFound,
    /// The resolver works, but the servers of this name do not.
    #[error("the host name could not be looked up: its name servers do not answer")]
    Broken,
    /// Our own resolver fails.
    #[error("this machine's resolver does not answer")]
    Unavailable,
}

/// The system's resolver, with its hosts file and its settings.
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
    /// A name whose servers are silent holds its look-ups for many seconds: the limit per name leaves some for
    /// others.
    by_name: Mutex<HashMap<String, Weak<Semaphore>>>,
    answered_at: Mutex<Option<Instant>>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self {
            lookups: Arc::new(Semaphore::new(LOOKUPS_AT_ONCE)),
            by_name: Mutex::default(),
            answered_at: Mutex::new(None),
        }
    }
}

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> ResolveFuture<'a> {
        Box::pin(async move {
            let name_permit = self.name_semaphore(name);
            let looked_up = async {
                let name_permit = name_permit.acquire_owned().await.map_err(io::Error::other)?;
                // No free thread is a local failure that must not count against this name.
                let free =
                    tokio::time::timeout(LOOKUP_WAIT_MAX, Arc::clone(&self.lookups).acquire_owned()).await;
                let Ok(Ok(permit)) = free else { return Ok(None) };
                self.look_up(name, (name_permit, permit)).await.map(Some)
            };
            match tokio::time::timeout(LOOKUP_TIMEOUT, looked_up).await {
                Ok(Ok(Some(addresses))) => Ok(addresses),
                Ok(Ok(None)) => Err(ResolveError::Unavailable),
                Ok(Err(error)) if is_not_found(&error) => {
                    self.note_answer();
                    Err(ResolveError::NotFound)
                }
                Ok(Err(_)) | Err(_) => Err(self.classify_failure()),
            }
        })
    }
}

impl SystemResolver {
    /// Returns the semaphore that limits the concurrent look-ups of one name.
    fn name_semaphore(&self, name: &str) -> Arc<Semaphore> {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name_permit) = by_name.get(name).and_then(Weak::upgrade) {
            return name_permit;
        }
        if by_name.len() >= LOOKUPS_AT_ONCE {
            by_name.retain(|_, name_permit| name_permit.strong_count() > 0);
        }
        let name_permit = Arc::new(Semaphore::new(LOOKUPS_PER_NAME));
        by_name.insert(name.to_owned(), Arc::downgrade(&name_permit));
        name_permit
    }

    async fn look_up(
        &self,
        name: &str,
        permits: (OwnedSemaphorePermit, OwnedSemaphorePermit),
    ) -> io::Result<Vec<IpAddr>> {
        let name = name.to_owned();
        let found = tokio::task::spawn_blocking(move || {
            let found = look_up(&name);
            // Held by the thread, which goes on after its caller has given up.
            drop(permits);
            found
        })
        .await
        .map_err(io::Error::other)??;
        self.note_answer();
        Ok(found)
    }

    fn note_answer(&self) {
        *self.answered_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Classifies a failed look-up. The system library says "try again" both when no resolver answers and when the
    /// name's own servers fail.
    fn classify_failure(&self) -> ResolveError {
        let answered_at = *self.answered_at.lock().unwrap_or_else(PoisonError::into_inner);
        match answered_at {
            Some(at) if at.elapsed() < RESOLVER_PROOF_TTL => ResolveError::Broken,
            _ => ResolveError::Unavailable,
        }
    }
}

/// The trailing dot keeps the search list out, but with it the system library does not find the name in the hosts file:
/// that is read here. Single labels, which only `dev` may call, are left to the library.
fn look_up(name: &str) -> io::Result<Vec<IpAddr>> {
    if !name.contains('.') {
        return ask_the_system(name);
    }
    let hosts = std::fs::read(HOSTS_FILE).unwrap_or_default();
    let found = in_hosts(&String::from_utf8_lossy(&hosts), name);
    if found.is_empty() { ask_the_system(&format!("{name}.")) } else { Ok(found) }
}

fn ask_the_system(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

fn in_hosts(hosts: &str, name: &str) -> Vec<IpAddr> {
    let address_of = |line: &str| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name)).then_some(address)
    };
    hosts.lines().filter_map(address_of).collect()
}

/// The standard library keeps the resolver's code only as text: these are the texts of glibc and of musl.
fn is_not_found(error: &io::Error) -> bool {
    const WORDS: [&str; 4] = [
        "Name or service not known",
        "No address associated with hostname",
        "Name does not resolve",
        "Name has no usable address",
    ];
    let text = error.to_string();
    error.raw_os_error().is_none() && WORDS.iter().any(|words| text.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_name_differs_from_a_missing_resolver() {
        let said = |words: &str| io::Error::other(format!("failed to lookup address information: {words}"));
        for words in
            ["Name or service not known", "No address associated with hostname", "Name does not resolve"]
        {
            assert!(is_not_found(&said(words)), "{words}");
        }
        for words in [
            "Temporary failure in name resolution",
            "Try again",
            "Non-recoverable failure in name resolution",
        ] {
            assert!(!is_not_found(&said(words)), "{words}");
        }
        assert!(!is_not_found(&io::Error::from_raw_os_error(24)));
    }

    #[test]
    fn a_name_is_found_in_a_hosts_file_with_comments_and_bad_lines() {
        let hosts = "# a.example is not this\n10.0.0.1\ta.example A2.example # b.example\n\n::1 a.example\nfoo a.example\n";
        let found = |name: &str| in_hosts(hosts, name).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(found("a.example"), ["10.0.0.1", "::1"]);
        assert_eq!(found("a2.example"), ["10.0.0.1"]);
        assert!(found("b.example").is_empty() && found("example").is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_the_names_only_while_the_resolver_is_known_to_work() {
        let resolver = SystemResolver::default();
        assert_eq!(resolver.classify_failure(), ResolveError::Unavailable);
        resolver.note_answer();
        assert_eq!(resolver.classify_failure(), ResolveError::Broken);
        tokio::time::advance(RESOLVER_PROOF_TTL).await;
        assert_eq!(resolver.classify_failure(), ResolveError::Unavailable);
    }
}
