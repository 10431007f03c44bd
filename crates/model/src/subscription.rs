//! Subscriptions of an endpoint to event types, and the form of an event type's name.

use super::{event::OPERATIONAL_PREFIX, field_error::FieldError};

const PATTERNS_MAX: usize = 500;

/// The form of an event type, for error messages.
pub const EVENT_TYPE_FORM: &str = "1 to 128 characters out of A-Z a-z 0-9 _ . : -";

const RESERVED: [&str; 2] = ["webhook.", OPERATIONAL_PREFIX];

/// Checks that a producer may publish an event of this type.
pub fn check_event_type(name: &str) -> Result<(), String> {
    if !is_event_type(name) {
        return Err(format!("must be {EVENT_TYPE_FORM}"));
    }
    match RESERVED.into_iter().find(|prefix| name.starts_with(prefix)) {
        Some(prefix) => Err(format!("must not start with \"{prefix}\", which is reserved")),
        None => Ok(()),
    }
}

fn is_event_type(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'-'))
}

/// The event types of one subscription: exact ones, all under a prefix (`payment.*`), or every one of the product (`*`).
/// Operational webhooks are sent only to endpoints that name them: `*` does not include them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patterns {
    all: bool,
    /// Sorted.
    exact: Box<[Box<str>]>,
    /// Each ends with a dot.
    prefixes: Box<[Box<str>]>,
}

impl Patterns {
    /// Returns the patterns for every event type of the product, the default of an endpoint.
    pub fn all() -> Self {
        Self { all: true, exact: Box::default(), prefixes: Box::default() }
    }

    pub fn parse(patterns: &[String]) -> Result<Self, FieldError> {
        if !(1..=PATTERNS_MAX).contains(&patterns.len()) {
            let message = format!("must be 1 to {PATTERNS_MAX} patterns; leave it out for every type");
            return Err(FieldError::new("event_types", message));
        }
        let (mut all, mut exact, mut prefixes) = (false, Vec::new(), Vec::new());
        for (i, pattern) in patterns.iter().enumerate() {
            match pattern.strip_suffix('*') {
                Some("") => all = true,
                Some(prefix) if prefix.strip_suffix('.').is_some_and(is_event_type) => {
                    prefixes.push(prefix.into());
                }
                None if is_event_type(pattern) => exact.push(pattern.as_str().into()),
                _ => {
                    let message =
                        format!("must be \"*\", or \"prefix.*\", or an event type: {EVENT_TYPE_FORM}");
                    return Err(FieldError::new(format!("event_types[{i}]"), message));
                }
            }
        }
        exact.sort_unstable();
        Ok(Self { all, exact: exact.into(), prefixes: prefixes.into() })
    }

    /// Whether it includes every type that a product can publish.
    pub fn matches_every_type(&self) -> bool {
        self.all
    }

    pub fn exact(&self) -> &[Box<str>] {
        &self.exact
    }

    /// Returns the prefixes, each of which ends with a dot.
    pub fn prefixes(&self) -> &[Box<str>] {
        &self.prefixes
    }

    pub fn matches(&self, event_type: &str) -> bool {
        self.all && !event_type.starts_with(OPERATIONAL_PREFIX)
            || self.exact.binary_search_by(|known| known.as_ref().cmp(event_type)).is_ok()
            || self.prefixes.iter().any(|prefix| event_type.starts_with(prefix.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn patterns(list: &[&str]) -> Patterns {
        Patterns::parse(&list.iter().map(|&p| p.to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_prefix_matches_only_beyond_its_dot() {
        let payments = patterns(&["payment.*"]);
        assert!(payments.matches("payment.created") && payments.matches("payment.card.declined"));
        for other in ["payment", "payments.created", "Payment.created", "x.payment.created"] {
            assert!(!payments.matches(other), "{other}");
        }
    }

    #[test]
    fn several_patterns_are_one_subscription() {
        let several = patterns(&["refund.created", "checkout.*", "a", "refund.failed"]);
        for wanted in ["refund.created", "refund.failed", "a", "checkout.expired"] {
            assert!(several.matches(wanted), "{wanted}");
        }
        assert!(!several.matches("refund.completed") && !several.matches("aa"));
        assert!(patterns(&["x", "*"]).matches("anything") && Patterns::all().matches("anything"));
    }

    #[test]
    fn operational_webhooks_match_only_patterns_that_name_them() {
        let disabled = "posthaste.endpoint.disabled";
        for named in [&[disabled][..], &["posthaste.*"], &["*", "posthaste.endpoint.*"]] {
            assert!(patterns(named).matches(disabled), "{named:?}");
        }
        for other in [&["*"][..], &["endpoint.*"], &["posthaste.delivery.*", "*"]] {
            assert!(!patterns(other).matches(disabled), "{other:?}");
        }
        assert!(!Patterns::all().matches(disabled) && Patterns::all().matches("posthastes.x"));
    }

    #[test]
    fn invalid_patterns_are_refused_with_their_index() {
        for bad in ["", ".*", "pay*", "*.created", "a.*.b", "**", "a b", "ü", "payment.**"] {
            let refusal = Patterns::parse(&["ok".to_owned(), bad.to_owned()]);
            assert_eq!(refusal.unwrap_err().field, "event_types[1]", "{bad:?}");
        }
        assert_eq!(Patterns::parse(&[]).unwrap_err().field, "event_types");
        assert!(Patterns::parse(&vec!["a".to_owned(); PATTERNS_MAX + 1]).is_err());
    }

    #[test]
    fn invalid_and_reserved_event_types_are_refused() {
        let longest = "a".repeat(128);
        for good in ["payment.created", "A-1:b_c.d", "webhook", "webhooks.x", longest.as_str()] {
            assert_eq!(check_event_type(good), Ok(()), "{good}");
        }
        let too_long = "a".repeat(129);
        for bad in ["", "a b", "a/b", "ü", "a*", "webhook.test", "posthaste.x", too_long.as_str()] {
            assert!(check_event_type(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_type_matches_itself_its_prefixes_and_the_star(name in "[a-c.]{1,6}", other in "[a-c.]{1,6}") {
            prop_assert!(patterns(&[&name]).matches(&name) && patterns(&["*"]).matches(&name));
            prop_assert_eq!(patterns(&[&name, "zz"]).matches(&other), name == other);
            let under = format!("{name}.{other}");
            let prefix = format!("{name}.*");
            prop_assert!(patterns(&[&prefix]).matches(&under));
        }
    }
}
