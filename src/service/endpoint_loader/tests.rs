//! Values that commit 80468f2 encrypted are decrypted: the context that they are bound to never changes.

use super::*;
use crate::domain::{
    app::AppSettings,
    encryption::Keyring,
    endpoint::fixtures::endpoint,
    id::{AppId, EndpointId},
    time::Timestamp,
};

/// The bytes 0 to 31.
const KEY: &str = "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const SECRET: &str = "01026b316d6cbfed35392df622c60bf15023895aef22730187db11b96342c96e149c8074703277e3f3be93bf9814f79201c115ba\
    f532b04f0cd59f1fe25166af1222ba1c53abfb43f76cba2c4c4504321702";
const HEADERS: &str = "01026b31c4e20fbd5df2758b1a5889e7f18daf9b90557eb527ab21057e6e9dcdedbf6d868af8e2f05910e65938f6c5b9285206ee62\
    83b7e614078370d0ff0651780786ca37d83ed97d2ead0a38336dc59a62d0c4";

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

#[test]
fn what_an_older_version_encrypted_for_an_endpoint_is_decrypted() {
    let now = Timestamp::from_millis(0);
    let app_settings = AppSettings::default();
    let app = App {
        id: AppId::from_i64(1),
        uid: "shop".into(),
        settings: app_settings,
        created_at: now,
        updated_at: now,
    };
    let id = EndpointId::from_i64(381_691_298_479_865_856);
    let settings = EndpointSettings { event_types: vec!["*".into()], ..EndpointSettings::default() };
    let mut record = endpoint(1, settings).record.clone();
    (record.id, record.uid) = (id, "full".into());
    let bound_to = encryption_context(&app, &record);
    assert_eq!(bound_to, "shop/ep_0ak0a6tsw0000");
    let keyring = Keyring::parse(KEY).unwrap();
    let open = |hex| String::from_utf8(keyring.decrypt(&bytes(hex), &bound_to).unwrap()).unwrap();
    assert_eq!(open(SECRET), "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=");
    assert_eq!(open(HEADERS), r#"[["X-Team","shop"],["Authorization","Bearer t0ken"]]"#);
}
