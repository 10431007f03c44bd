//! Replies that are guaranteed to be sent.

use crate::store::StoreError;
use tokio::sync::oneshot;

/// A reply to a waiting caller: dropped unsent, it sends an error.
pub(super) struct ReplyGuard<T>(Option<oneshot::Sender<Result<T, StoreError>>>);

impl<T> ReplyGuard<T> {
    pub(super) fn to(reply: oneshot::Sender<Result<T, StoreError>>) -> Self {
        Self(Some(reply))
    }

    pub(super) fn is_waited_for(&self) -> bool {
        self.0.as_ref().is_some_and(|answer| !answer.is_closed())
    }

    pub(super) fn send(mut self, answer: Result<T, StoreError>) {
        if let Some(waits) = self.0.take() {
            let _ = waits.send(answer);
        }
    }
}

impl<T> Drop for ReplyGuard<T> {
    fn drop(&mut self) {
        if let Some(waits) = self.0.take() {
            let _ =
                waits.send(Err(StoreError::Unavailable("the connection to the database broke".to_owned())));
        }
    }
}
