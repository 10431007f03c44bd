//! Properties of the limits: none is exceeded, turns are fair, and every waiting queue is served.

use super::*;
use proptest::prelude::*;

const A: AppId = AppId::from_i64(1);
const B: AppId = AppId::from_i64(2);

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + ms)
}

fn queue(number: i64) -> EndpointId {
    EndpointId::from_i64(number)
}

#[test]
fn an_app_with_a_thousand_queues_gets_no_more_turns_than_an_app_with_one() {
    let mut limiter = ConcurrencyLimiter::new(ConcurrencyLimit { in_flight: Some(1), rate: None });
    assert!(limiter.try_admit(A, queue(0), at(0)).0);
    for number in 1..=1000 {
        assert!(!limiter.try_admit(A, queue(number), at(0)).0);
    }
    assert!(!limiter.try_admit(B, queue(2000), at(0)).0);
    let mut order = Vec::new();
    let mut sending = A;
    for _ in 0..10 {
        let served = limiter.release_slot(sending, true, at(0)).queues;
        let [next] = served[..] else { panic!("{served:?}") };
        sending = if next == queue(2000) { B } else { A };
        assert!(limiter.try_admit(sending, next, at(0)).0, "what it was given is its own");
        // It has more to send, and goes to the end of the line.
        limiter.try_admit(sending, next, at(0));
        order.push(next.as_i64());
    }
    assert_eq!(order, [1, 2000, 2, 2000, 3, 2000, 4, 2000, 5, 2000]);
}

#[test]
fn slots_that_a_queue_does_not_need_go_to_the_next() {
    let mut limiter = ConcurrencyLimiter::new(ConcurrencyLimit::default());
    limiter.set_limit(A, ConcurrencyLimit { in_flight: Some(1), rate: None });
    assert!(limiter.try_admit(A, queue(1), at(0)).0);
    assert!(!limiter.try_admit(A, queue(2), at(0)).0);
    assert!(!limiter.try_admit(A, queue(3), at(0)).0);
    assert!(limiter.try_admit(B, queue(4), at(0)).0, "another app's limit does not apply");
    assert_eq!(limiter.release_slot(A, true, at(0)).queues, [queue(2)]);
    assert!(!limiter.try_admit(A, queue(1), at(0)).0, "waiting queues are not overtaken");
    assert_eq!(limiter.give_up_granted(A, queue(2), at(0)).queues, [queue(3)]);
    assert_eq!(limiter.give_up_granted(A, queue(3), at(0)).queues, [queue(1)]);
    assert_eq!(limiter.give_up_granted(A, queue(1), at(0)).queues, []);
    assert!(limiter.try_admit(A, queue(9), at(0)).0, "every slot came back");
}

#[test]
fn a_queue_that_waits_for_a_token_is_served_when_it_comes() {
    let mut limiter =
        ConcurrencyLimiter::new(ConcurrencyLimit { in_flight: None, rate: Some(RateLimit::per_second(2)) });
    limiter.start(at(0));
    let (may, served) = limiter.try_admit(A, queue(1), at(0));
    assert_eq!((may, served.next_check_at), (false, Some(at(500))));
    assert_eq!(limiter.grant_free(None, at(499)).queues, []);
    assert_eq!(limiter.grant_free(None, at(500)).queues, [queue(1)]);
    assert!(limiter.try_admit(A, queue(1), at(500)).0);
}

proptest! {
    /// In any order of calls no limit is exceeded, and every waiting queue is served in the end.
    #[test]
    fn no_limit_is_exceeded_and_no_queue_waits_forever(
        node in prop::option::of(1usize..4),
        own in prop::option::of(1usize..3),
        per_second in prop::option::of(1u32..20),
        steps in prop::collection::vec((0i64..300, 0u8..6, 0i64..6), 1..200),
    ) {
        let rate = per_second.map(RateLimit::per_second);
        let mut limiter = ConcurrencyLimiter::new(ConcurrencyLimit { in_flight: node, rate });
        limiter.set_limit(A, ConcurrencyLimit { in_flight: own, rate: None });
        let app_of = |number: i64| if number < 4 { A } else { B };
        let (mut now, mut out, mut pending) = (0, Vec::new(), BTreeSet::new());
        let mut sent = Vec::new();
        let mut send = |limiter: &mut ConcurrencyLimiter, number: i64, now: i64, out: &mut Vec<i64>, pending: &mut BTreeSet<i64>| {
            let mut ring = vec![number];
            while let Some(number) = ring.pop() {
                if !pending.contains(&number) {
                    ring.extend(limiter.give_up_granted(app_of(number), queue(number), at(now)).queues.iter().map(|queue| queue.as_i64()));
                    continue;
                }
                let (may, served) = limiter.try_admit(app_of(number), queue(number), at(now));
                ring.extend(served.queues.iter().map(|queue| queue.as_i64()));
                if may {
                    pending.remove(&number);
                    limiter.spend_tokens(app_of(number), at(now));
                    out.push(number);
                    sent.push(now);
                }
            }
        };
        for (step, what, number) in steps {
            now += step;
            match what {
                0..3 => {
                    pending.insert(number);
                    send(&mut limiter, number, now, &mut out, &mut pending);
                }
                3 => drop(pending.remove(&number)),
                _ => if let Some(ended) = out.pop() {
                    for next in limiter.release_slot(app_of(ended), true, at(now)).queues {
                        send(&mut limiter, next.as_i64(), now, &mut out, &mut pending);
                    }
                },
            }
            for next in limiter.grant_free(None, at(now)).queues {
                send(&mut limiter, next.as_i64(), now, &mut out, &mut pending);
            }
            prop_assert!(node.is_none_or(|most| out.len() <= most));
            let of_a = out.iter().filter(|number| app_of(**number) == A).count();
            prop_assert!(own.is_none_or(|most| of_a <= most));
        }
        // Every request ends, and time passes.
        for _ in 0..40 {
            now += 1000;
            for ended in std::mem::take(&mut out) {
                for next in limiter.release_slot(app_of(ended), true, at(now)).queues {
                    send(&mut limiter, next.as_i64(), now, &mut out, &mut pending);
                }
            }
            for next in limiter.grant_free(None, at(now)).queues {
                send(&mut limiter, next.as_i64(), now, &mut out, &mut pending);
            }
        }
        prop_assert!(pending.is_empty(), "{:?}", pending);
        let rate = i64::from(per_second.unwrap_or(0)) * 1000;
        for (first, from) in sent.iter().enumerate().filter(|_| rate > 0) {
            for (until, count) in sent[first..].iter().zip(1i64..) {
                prop_assert!(count * 1_000_000 <= rate * 1000 + rate * (until - from));
            }
        }
    }
}
