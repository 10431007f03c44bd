//! Randomness, passed in as an argument. Secrets, keys and nonces are filled from the cryptographic source; jitter uses
//! `unit_float`.
//!
//! `SeededEntropy` makes both repeatable for tests and must never make a real secret.

use std::sync::{Mutex, PoisonError};

pub trait Entropy: Send + Sync {
    /// Fills `bytes` unpredictably: for secrets, keys and nonces.
    fn fill(&self, bytes: &mut [u8]);

    /// A number in `0.0..1.0`, for jitter.
    fn unit_float(&self) -> f64;
}

/// The machine's cryptographic randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    /// Panics if the machine has no randomness to give: to go on would mean keys that can be guessed.
    fn fill(&self, bytes: &mut [u8]) {
        aws_lc_rs::rand::fill(bytes).expect("the machine gives no randomness");
    }

    fn unit_float(&self) -> f64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        // 53 bits are all that a float below one can tell apart.
        (u64::from_le_bytes(bytes) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Repeatable randomness: the same values for the same seed.
#[derive(Debug)]
pub struct SeededEntropy(Mutex<fastrand::Rng>);

impl SeededEntropy {
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill(bytes);
    }

    fn unit_float(&self) -> f64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(entropy: &dyn Entropy) -> ([u8; 32], f64) {
        let mut bytes = [0; 32];
        entropy.fill(&mut bytes);
        (bytes, entropy.unit_float())
    }

    #[test]
    fn equal_seeds_give_equal_values_and_other_seeds_others() {
        assert_eq!(some(&SeededEntropy::new(7)), some(&SeededEntropy::new(7)));
        assert_ne!(some(&SeededEntropy::new(7)).0, some(&SeededEntropy::new(8)).0);
    }

    #[test]
    fn the_machines_bytes_do_not_repeat() {
        assert_ne!(some(&SystemEntropy).0, some(&SystemEntropy).0);
    }

    #[test]
    fn rolls_cover_zero_to_one_and_never_reach_one() {
        for entropy in [&SystemEntropy as &dyn Entropy, &SeededEntropy::new(1)] {
            let rolls: Vec<f64> = (0..2_000).map(|_| entropy.unit_float()).collect();
            assert!(rolls.iter().all(|roll| (0.0..1.0).contains(roll)));
            assert!(rolls.iter().any(|roll| *roll < 0.05) && rolls.iter().any(|roll| *roll > 0.95));
        }
    }
}
