//! The binary. It does nothing yet.

fn main() {}
