//! Statuses to answer with: a list for each path, or for all of them, whose last one stays.

use axum::http::StatusCode;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A parsed `[PATH=]STATUS,…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StatusRule {
    path: Option<String>,
    statuses: Vec<StatusCode>,
}

impl StatusRule {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (path, list) = match text.rsplit_once('=') {
            Some((path, list)) if path.starts_with('/') => (Some(path.to_owned()), list),
            Some(_) => return Err("give a path that starts with / before the =".into()),
            None => (None, text),
        };
        // A status below 200 is no final answer.
        let status = |text: &str| text.trim().parse().ok().filter(|code| (200..=599).contains(code));
        let status = |text: &str| status(text).and_then(|code| StatusCode::from_u16(code).ok());
        let statuses: Option<Vec<_>> = list.split(',').map(status).collect();
        let form = "give statuses from 200 to 599, separated by commas, for example 500,500,200 or /slow=503";
        statuses.map(|statuses| Self { path, statuses }).ok_or_else(|| form.to_owned())
    }
}

pub(super) struct StatusRules(Vec<(StatusRule, AtomicUsize)>);

impl StatusRules {
    pub(super) fn new(rules: Vec<StatusRule>) -> Self {
        Self(rules.into_iter().map(|rule| (rule, AtomicUsize::new(0))).collect())
    }

    /// Returns the next status for this path: from its own list, else from the one for all.
    pub(super) fn next(&self, path: &str) -> Option<StatusCode> {
        let of = |wanted: Option<&str>| self.0.iter().find(|(rule, _)| rule.path.as_deref() == wanted);
        let (rule, index) = of(Some(path)).or_else(|| of(None))?;
        let index = index.fetch_add(1, Ordering::Relaxed);
        rule.statuses.get(index).or(rule.statuses.last()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_uses_its_list_in_order_and_then_keeps_the_last_status() {
        let answers = StatusRules::new(
            ["500,503,200", "/slow=404"].map(|text| StatusRule::parse(text).unwrap()).into(),
        );
        let next = |path| answers.next(path).map(|status| status.as_u16());
        assert_eq!(
            [next("/a"), next("/slow"), next("/b"), next("/a"), next("/a")].map(Option::unwrap),
            [500, 404, 503, 200, 200]
        );
        assert_eq!(StatusRules::new(Vec::new()).next("/"), None);
    }

    #[test]
    fn invalid_statuses_are_refused() {
        for bad in ["", "99", "600", "200,", "abc", "slow=200", "100"] {
            assert!(StatusRule::parse(bad).is_err(), "{bad}");
        }
        assert!(StatusRule::parse("/a=b=200,500").is_ok());
    }
}
