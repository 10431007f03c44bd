//! A product that pays an order and publishes that, as docs/transactional-publish.md says. usage: shop ADDRESS

use serde::Serialize;
use sqlx::PgPool;

#[derive(Serialize)]
struct Paid {
    order: i64,
    amount: &'static str,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("usage: shop ADDRESS")?;
    let pool = PgPool::connect(&address).await?;
    // The example, in braces, and what it calls `event`.
    let event: String = include!(env!("POSTHASTE_EXAMPLE"));
    println!("{event}");
    Ok(())
}
