//! Notices: written with their cause, merged into digests, collected into mails, listed, and purged.

use crate::fixture::{Fixture, NOW, after, attempt, dead, retry_at};
use posthaste::{
    domain::{
        contract::{Contract, DeadLetterNotice, NoticeChannel},
        delivery::DeliveryState,
        event::DedupSpace,
        id::{AppId, DeliveryId, EndpointId, ReplayId},
        notice::{MailState, Notice, NoticeKind},
        outcome::OutcomeClass,
        replay::{Replay, ReplayFilter, ReplaySelection, ReplayState},
        time::Timestamp,
        verdict::{DeadReason, DueAction, Verdict},
    },
    store::{
        deliveries::{Accepted, DeliveryAction, LeaseRequest},
        notices::{MailCursor, MailOutcome, NoticeBatch, NoticeFilter},
        replays::ReplayPage,
    },
};
use std::{sync::Arc, time::Duration};

const HOUR: u64 = 3600;

fn contract(dead_letter: DeadLetterNotice, by: NoticeChannel) -> Arc<Contract> {
    let mut contract = Contract::builtin().unwrap().remove(0);
    contract.notices.dead_letter = dead_letter;
    contract.notices.dead_letter_by = by;
    contract.notices.digest_window = Duration::from_secs(HOUR);
    Arc::new(contract)
}

fn each() -> Arc<Contract> {
    contract(DeadLetterNotice::Each, NoticeChannel::Email)
}

fn digest() -> Arc<Contract> {
    contract(DeadLetterNotice::Digest, NoticeChannel::Email)
}

/// Makes a delivery of the fixture's endpoint that becomes dead under this contract.
async fn die(fixture: &mut Fixture, contract: impl Into<Option<Arc<Contract>>>) -> DeliveryId {
    let leased = fixture.leased().await;
    let id = leased.delivery.id;
    let failed = attempt(OutcomeClass::Http, 500);
    fixture.record_under(leased, dead(DeadReason::Exhausted), vec![failed], contract.into()).await;
    id
}

async fn all(fixture: &Fixture, filter: NoticeFilter) -> Vec<Notice> {
    fixture.store().notices(filter, None, 100).await.unwrap().rows
}

async fn of_app(fixture: &Fixture) -> Vec<Notice> {
    all(fixture, NoticeFilter { app: Some(fixture.app), ..NoticeFilter::default() }).await
}

async fn take(fixture: &Fixture, after: i64, resting: &[AppId], now: Timestamp) -> NoticeBatch {
    let cursor = MailCursor { after: AppId::from_i64(after), collecting: resting.to_vec() };
    fixture.store().next_mail(cursor, now).await.unwrap()
}

async fn end(fixture: &Fixture, mail: &[Notice], end: MailOutcome) {
    fixture.store().finish_mail(mail[0].app, mail[0].id, end, after(9)).await.unwrap();
}

/// Makes a notice about a replay, of a kind that shares mails.
async fn mail_sharing_notice(fixture: &mut Fixture, app: AppId) {
    let id = fixture.next_id();
    let selection = ReplaySelection::Deliveries(ReplayFilter {
        endpoint: None,
        event_type: None,
        states: vec!["dead".into()],
        missed_since: None,
    });
    let replay = Replay {
        id: ReplayId::from_i64(id),
        app,
        selection,
        per_second: 10,
        state: ReplayState::Running,
        from_id: 0,
        to_id: id,
        reached: -1,
        total: 7,
        replayed: 5,
        refused: 2,
        last_refusal: Some("dlv_1 is held by now".into()),
        created_at: NOW,
        changed_at: NOW,
        running_time: Duration::ZERO,
    };
    fixture.store().start_replay(replay.clone(), None).await.unwrap();
    let page = ReplayPage {
        replay: replay.id,
        after_id: -1,
        sources: vec![],
        reached: id,
        is_last: true,
        notify_channel: NoticeChannel::Email,
    };
    fixture.store().advance_replay(page, after(5)).await.unwrap();
    fixture.wait_until_idle().await;
}

pub(crate) async fn a_dead_delivery_has_one_notice_with_its_details(mut fixture: Fixture) {
    fixture.recorder.take_notices_wait();
    let id = die(&mut fixture, each()).await;
    assert_eq!(fixture.recorder.take_notices_wait(), 1, "the sender is notified");
    let [notice] = &of_app(&fixture).await[..] else { panic!("one notice") };
    assert_eq!((notice.kind, notice.count, notice.mail), (NoticeKind::DeliveryDead, 1, MailState::Waiting));
    assert_eq!((notice.endpoint, notice.delivery), (Some(fixture.endpoint), Some(id)));
    assert_eq!((notice.at, notice.details.since), (after(1), Some(NOW)));
    assert_eq!(notice.details.reason.as_deref(), Some("exhausted"));
    assert!(
        notice.details.text.contains("payment.paid") && notice.details.text.contains("one attempt failed")
    );
    assert_eq!(notice.event.as_ref().unwrap().event_type, "payment.paid");
    assert_eq!(fixture.store().notice(fixture.app, notice.id).await.unwrap().as_ref(), Some(notice));
    fixture.waiting().await;
    assert_eq!(fixture.recorder.take_notices_wait(), 0, "no ring without a notice");
}

pub(crate) async fn a_delivery_dead_after_its_final_wait_has_a_notice_too(mut fixture: Fixture) {
    for (then, expected) in [(DueAction::Exhaust, 1), (DueAction::Expire, 0)] {
        let last = Verdict::Retry { due: after(60), then };
        let mut failed = attempt(OutcomeClass::Http, 503);
        failed.outcome.error = Some("HTTP 503".into());
        fixture.concluded(last, failed).await;
        let request = LeaseRequest { contract: Some(each()), ..fixture.refill_request(fixture.endpoint, 1) };
        fixture.store().lease_due(vec![request], after(61)).await.unwrap();
        fixture.wait_until_idle().await;
        let notices = of_app(&fixture).await;
        assert_eq!(notices.len(), 1, "{then:?} and {expected}");
        assert_eq!((notices[0].at, notices[0].details.last_error.as_deref()), (after(61), Some("HTTP 503")));
    }
}

pub(crate) async fn deliveries_that_continue_or_are_internal_have_no_notice(mut fixture: Fixture) {
    for verdict in [Verdict::Delivered, retry_at(after(9)), Verdict::RetryUncounted { due: after(9) }] {
        let leased = fixture.leased().await;
        fixture.record_under(leased, verdict, vec![attempt(OutcomeClass::Http, 500)], Some(each())).await;
    }
    for event_type in ["webhook.test", "posthaste.endpoint.disabled"] {
        let mut new = fixture.one_with_permit();
        Arc::get_mut(&mut new.event).unwrap().event_type = event_type.into();
        fixture.publish(new).await;
        let leased = fixture.only_leased();
        let failed = vec![attempt(OutcomeClass::Http, 500)];
        fixture.record_under(leased, dead(DeadReason::Exhausted), failed, Some(each())).await;
    }
    assert_eq!(of_app(&fixture).await, []);
    let id = die(&mut fixture, each()).await;
    fixture.request(id, DeliveryAction::Retry).await;
    let leased = fixture.lease(id, after(100)).await;
    fixture
        .record_under(
            leased,
            dead(DeadReason::Exhausted),
            vec![attempt(OutcomeClass::Http, 500)],
            Some(each()),
        )
        .await;
    assert_eq!(fixture.delivery(id).await.state, DeliveryState::Dead, "it went back to where it was");
    assert_eq!(of_app(&fixture).await.len(), 1, "that one was reported before");
}

pub(crate) async fn the_contract_decides_whether_there_is_a_notice(mut fixture: Fixture) {
    die(&mut fixture, contract(DeadLetterNotice::None, NoticeChannel::Email)).await;
    die(&mut fixture, None).await;
    assert_eq!(of_app(&fixture).await, []);
    die(&mut fixture, contract(DeadLetterNotice::Each, NoticeChannel::List)).await;
    assert_eq!(of_app(&fixture).await[0].mail, MailState::None);
    assert!(
        take(&fixture, 0, &[], after(9)).await.notices.is_empty(),
        "what is on the list alone is not mailed"
    );
}

pub(crate) async fn a_digest_counts_until_it_closes_and_keeps_its_size(mut fixture: Fixture) {
    let first = die(&mut fixture, digest()).await;
    let other = fixture.new_endpoint(fixture.app).await;
    let own = fixture.endpoint;
    fixture.endpoint = other;
    for _ in 0..49 {
        die(&mut fixture, digest()).await;
    }
    let last = die(&mut fixture, digest()).await;
    let [notice] = &of_app(&fixture).await[..] else { panic!("one digest") };
    assert_eq!((notice.count, notice.delivery, notice.endpoint), (51, Some(last), None));
    assert!(notice.details.text.starts_with("51 deliveries"), "{}", notice.details.text);
    let digest = notice.digest.as_ref().unwrap();
    let counts: Vec<_> = digest.endpoints().iter().map(|of| (of.id(), of.count)).collect();
    assert_eq!(counts, [(own, 1), (other, 50)]);
    assert_eq!((digest.first.delivery(), digest.last.delivery()), (Some(first), Some(last)));
    assert_eq!(notice.endpoints().collect::<Vec<_>>(), [own, other]);
}

pub(crate) async fn a_replay_that_ends_leaves_a_notice_with_its_counts(mut fixture: Fixture) {
    let app = fixture.app;
    mail_sharing_notice(&mut fixture, app).await;
    let [notice] = &of_app(&fixture).await[..] else { panic!("one notice") };
    assert_eq!((notice.kind, notice.at), (NoticeKind::ReplayFinished, after(5)));
    let text = &notice.details.text;
    assert!(text.contains("5 sent again, 2 could not be") && text.contains("rpl_"), "{text}");
    assert_eq!(notice.details.last_error.as_deref(), Some("dlv_1 is held by now"));
}

pub(crate) async fn a_mail_stays_the_same_until_it_has_ended(mut fixture: Fixture) {
    for _ in 0..3 {
        let app = fixture.app;
        mail_sharing_notice(&mut fixture, app).await;
    }
    let mail = take(&fixture, 0, &[], after(9)).await.notices;
    assert_eq!(mail.len(), 3, "several go together");
    let app = fixture.app;
    mail_sharing_notice(&mut fixture, app).await;
    die(&mut fixture, each()).await;
    assert_eq!(take(&fixture, 0, &[], after(9)).await.notices, mail, "whatever came meanwhile");
    fixture.reopen();
    fixture.store().join(after(9)).await.unwrap();
    assert_eq!(take(&fixture, 0, &[], after(9)).await.notices, mail, "and after a restart");
    end(&fixture, &mail, MailOutcome::Sent).await;
    let next = take(&fixture, 0, &[], after(9)).await.notices;
    assert_eq!(next.iter().map(|one| one.kind).collect::<Vec<_>>(), [NoticeKind::ReplayFinished]);
    end(&fixture, &next, MailOutcome::Rejected("550 no such user".into())).await;
    let last = take(&fixture, 0, &[], after(9)).await.notices;
    assert_eq!(last[0].kind, NoticeKind::DeliveryDead);
    end(&fixture, &last, MailOutcome::NoRecipient("no address".into())).await;
    assert!(take(&fixture, 0, &[], after(9)).await.notices.is_empty());
    let ends: Vec<_> = of_app(&fixture).await.into_iter().map(|one| (one.mail, one.mail_error)).collect();
    let refused = (MailState::Refused, Some("550 no such user".into()));
    assert_eq!(ends[..2], [(MailState::None, Some("no address".into())), refused]);
    assert!(ends[2..].iter().all(|end| *end == (MailState::Sent, None)));
}

pub(crate) async fn mails_alternate_between_apps_and_skip_resting_ones(mut fixture: Fixture) {
    let (first, second) = (fixture.app, fixture.new_app().await);
    for app in [first, second, first] {
        mail_sharing_notice(&mut fixture, app).await;
    }
    let app_of = async |after: AppId, resting: &[AppId]| {
        let taken = take(&fixture, after.as_i64(), resting, NOW).await.notices;
        taken.first().map(|notice| notice.app)
    };
    assert_eq!(app_of(first, &[]).await, Some(second));
    assert_eq!(app_of(second, &[]).await, Some(first));
    for app in [first, second] {
        let mail = take(&fixture, app.as_i64() - 1, &[], NOW).await.notices;
        assert_eq!(mail[0].app, app);
        end(&fixture, &mail, MailOutcome::Sent).await;
    }
    mail_sharing_notice(&mut fixture, first).await;
    assert!(take(&fixture, 0, &[first], NOW).await.notices.is_empty(), "it gathers");
    die(&mut fixture, each()).await;
    let alone = take(&fixture, 0, &[first], NOW).await.notices;
    assert_eq!(alone.iter().map(|one| one.kind).collect::<Vec<_>>(), [NoticeKind::DeliveryDead]);
}

pub(crate) async fn a_digest_is_mailed_and_published_when_it_closes_and_not_before(mut fixture: Fixture) {
    die(&mut fixture, digest()).await;
    die(&mut fixture, digest()).await;
    let closes = after(1 + HOUR);
    let before = Timestamp::from_millis(closes.as_millis() - 1);
    let waiting = take(&fixture, 0, &[], before).await;
    assert!(waiting.notices.is_empty());
    assert_eq!(waiting.closes_at, Some(closes));
    fixture.store().close_digests(before).await.unwrap();
    let unpublished = fixture.store().unpublished_notices(10).await.unwrap();
    assert_eq!((unpublished.notices.len(), unpublished.closes_at), (0, Some(closes)));
    fixture.store().close_digests(closes).await.unwrap();
    let unpublished = fixture.store().unpublished_notices(10).await.unwrap();
    assert_eq!((unpublished.notices[0].count, unpublished.closes_at), (2, None));
    let mail = take(&fixture, 0, &[], closes).await.notices;
    assert_eq!(mail[0].count, 2);
    die(&mut fixture, digest()).await;
    let counts: Vec<_> = of_app(&fixture).await.iter().map(|one| one.count).collect();
    assert_eq!(counts, [1, 2], "what is on its way is not counted up");
}

/// A delivery that became dead in time and is recorded late, for example by another node, is still reported.
pub(crate) async fn an_occurrence_after_a_digest_was_read_goes_into_another(mut fixture: Fixture) {
    die(&mut fixture, digest()).await;
    let closes = after(1 + HOUR);
    assert!(fixture.store().unpublished_notices(10).await.unwrap().notices.is_empty());
    fixture.store().close_digests(closes).await.unwrap();
    let read = fixture.store().unpublished_notices(10).await.unwrap().notices;
    assert_eq!(read[0].count, 1);
    // This one became dead within the window.
    die(&mut fixture, digest()).await;
    fixture.store().mark_notices_published(vec![read[0].id]).await.unwrap();
    fixture.store().close_digests(closes).await.unwrap();
    let read = fixture.store().unpublished_notices(10).await.unwrap().notices;
    assert_eq!(read.iter().map(|one| one.count).collect::<Vec<_>>(), [1]);
}

pub(crate) async fn a_published_notice_is_not_found_again(mut fixture: Fixture) {
    for _ in 0..3 {
        die(&mut fixture, each()).await;
    }
    let waiting = fixture.store().unpublished_notices(2).await.unwrap().notices;
    assert_eq!(waiting.len(), 2);
    assert_eq!(fixture.store().notices_waiting().await.unwrap().webhooks, 3);
    fixture.store().mark_notices_published(waiting.iter().map(|one| one.id).collect()).await.unwrap();
    let left = fixture.store().unpublished_notices(10).await.unwrap().notices;
    assert_eq!(left.len(), 1);
    assert!(left[0].id > waiting[1].id, "the oldest came first");
}

pub(crate) async fn a_notice_that_is_published_twice_is_one_event(mut fixture: Fixture) {
    die(&mut fixture, each()).await;
    let notice = of_app(&fixture).await[0].id.to_string();
    let mut publish = async |space| {
        let mut new = fixture.one_event();
        new.dedup = vec![fixture.dedup(space, &notice)];
        fixture.accept(new).await
    };
    // A process killed between publishing and marking publishes it again.
    assert_eq!(publish(DedupSpace::Notice).await, Accepted::New);
    assert!(matches!(publish(DedupSpace::Notice).await, Accepted::Repeated { .. }));
    for a_producer_s in [DedupSpace::EventId, DedupSpace::IdempotencyKey] {
        assert_eq!(publish(a_producer_s).await, Accepted::New, "no name of a producer's is in the way");
    }
}

pub(crate) async fn lists_filter_and_apps_do_not_mix(mut fixture: Fixture) {
    let own = fixture.app;
    die(&mut fixture, each()).await;
    mail_sharing_notice(&mut fixture, own).await;
    let other = fixture.new_app().await;
    mail_sharing_notice(&mut fixture, other).await;
    let everywhere = NoticeFilter::default();
    assert_eq!(all(&fixture, everywhere).await.len(), 3);
    let cases: [(NoticeFilter, &[NoticeKind]); 6] = [
        (NoticeFilter { app: Some(other), ..everywhere }, &[NoticeKind::ReplayFinished]),
        (NoticeFilter { kind: Some(NoticeKind::DeliveryDead), ..everywhere }, &[NoticeKind::DeliveryDead]),
        (NoticeFilter { endpoint: Some(fixture.endpoint), ..everywhere }, &[NoticeKind::DeliveryDead]),
        (NoticeFilter { endpoint: Some(EndpointId::from_i64(7)), ..everywhere }, &[]),
        (NoticeFilter { to: Some(after(5)), ..everywhere }, &[NoticeKind::DeliveryDead]),
        (NoticeFilter { from: Some(after(5)), ..everywhere }, &[NoticeKind::ReplayFinished; 2]),
    ];
    for (filter, expected) in cases {
        let kinds: Vec<_> = all(&fixture, filter).await.iter().map(|one| one.kind).collect();
        assert_eq!(kinds, expected, "{filter:?}");
    }
    let page = fixture.store().notices(everywhere, None, 2).await.unwrap();
    assert!(page.rows[0].id > page.rows[1].id, "the newest first");
    let rest = fixture.store().notices(everywhere, page.next, 2).await.unwrap();
    assert_eq!((rest.rows.len(), rest.next), (1, None));
    let mine = of_app(&fixture).await[0].id;
    assert!(fixture.store().notice(other, mine).await.unwrap().is_none());
}

pub(crate) async fn notices_are_purged_but_not_while_they_wait(mut fixture: Fixture) {
    const DAY: u64 = 24 * HOUR;
    die(&mut fixture, contract(DeadLetterNotice::Each, NoticeChannel::List)).await;
    let unpublished = fixture.store().unpublished_notices(10).await.unwrap().notices;
    fixture.store().mark_notices_published(unpublished.iter().map(|one| one.id).collect()).await.unwrap();
    die(&mut fixture, each()).await;
    fixture.store().purge_records(after(1)).await.unwrap();
    assert_eq!(of_app(&fixture).await.len(), 2, "none is old enough");
    fixture.store().purge_records(after(2)).await.unwrap();
    assert_eq!(of_app(&fixture).await.len(), 1, "the one that waits stays");
    fixture.store().purge_records(after(7 * DAY)).await.unwrap();
    assert_eq!(of_app(&fixture).await.len(), 1);
    fixture.store().purge_records(after(7 * DAY + 2)).await.unwrap();
    assert_eq!(of_app(&fixture).await, []);
}

pub(crate) async fn notices_are_deleted_with_their_app(mut fixture: Fixture) {
    let own = fixture.app;
    let other = fixture.new_app().await;
    mail_sharing_notice(&mut fixture, own).await;
    mail_sharing_notice(&mut fixture, other).await;
    fixture.store().remove_app(own, None).await.unwrap();
    let left = all(&fixture, NoticeFilter::default()).await;
    assert_eq!(left.iter().map(|one| one.app).collect::<Vec<_>>(), [other], "not shown any more");
    while fixture.store().purge_deleted_apps().await.unwrap() {}
    assert_eq!(fixture.store().notices_waiting().await.unwrap().mails, 1, "and gone");
}
