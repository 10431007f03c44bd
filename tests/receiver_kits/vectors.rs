//! The file of vectors: requests of the product under every contract, and faulty variants.

use crate::{
    case::{CONTRACTS, Case, NOW_SECONDS, ed25519, secret},
    kit,
};
use serde_json::{Value, json};

/// Set this variable to rewrite the file; review the difference before you keep it.
const WRITE: &str = "POSTHASTE_WRITE_VECTORS";

#[derive(Default)]
struct Vectors(Vec<Value>);

impl Vectors {
    fn add(&mut self, name: &str, case: &Case, expect: &str) {
        self.0.push(case.write(&format!("{}: {name}", case.contract), expect, None));
    }

    /// A case that needs ed25519, which not every standard library has.
    fn add_ed25519(&mut self, name: &str, case: &Case, expect: &str, without: &str) {
        self.0.push(case.write(&format!("{}: {name}", case.contract), expect, Some(without)));
    }
}

/// Every vector, as the file holds them.
pub(crate) fn all() -> Vec<Value> {
    let mut vectors = Vectors::default();
    for contract in CONTRACTS {
        genuine(&mut vectors, contract);
        forged(&mut vectors, contract);
        misshapen(&mut vectors, contract);
        misconfigured(&mut vectors, contract);
        if contract != "orientedos" {
            times(&mut vectors, contract);
        }
        if !matches!(contract, "standard" | "sendnomi") {
            branded(&mut vectors, contract);
        }
    }
    lists(&mut vectors);
    stamps(&mut vectors);
    unsigned_parts(&mut vectors);
    keys_of_standard(&mut vectors);
    public_keys(&mut vectors);
    vectors.0
}

fn genuine(vectors: &mut Vectors, contract: &'static str) {
    let sent = Case::sent(contract);
    vectors.add("genuine", &sent, "ok");
    vectors.add("header names in capitals", &sent.clone().names(str::to_ascii_uppercase), "ok");
    let (old, new) = (secret(contract, 1), secret(contract, 2));
    vectors.add("signed with the old of two secrets", &sent.clone().secrets(&[&new, &old]), "ok");
    vectors.add("signed with the new of two secrets", &sent.clone().secrets(&[&old, &new]), "ok");
    let long = format!("{{\"text\":\"{}\"}}", "0123456789".repeat(30));
    vectors.add("a longer body", &Case::signed(contract, None, &[old], &long), "ok");
    vectors.add(
        "another header beside",
        &sent.names(|name| name.replace("content-type", "x-other-signature")),
        "ok",
    );
}

fn forged(vectors: &mut Vectors, contract: &'static str) {
    let sent = Case::sent(contract);
    let mismatch = "signature_mismatch";
    let flip = |body: &mut Vec<u8>| *body.last_mut().unwrap() ^= 1;
    vectors.add("the last byte of the body changed", &sent.clone().body(flip), mismatch);
    vectors.add("a newline after the body", &sent.clone().body(|body| body.push(b'\n')), mismatch);
    vectors.add("no body", &sent.clone().body(Vec::clear), mismatch);
    vectors.add("signed with another secret", &sent.clone().secrets(&[&secret(contract, 2)]), mismatch);
    let others = [secret(contract, 2), secret(contract, 3)];
    vectors.add("signed with neither of two", &sent.clone().secrets(&[&others[0], &others[1]]), mismatch);
    let value = sent.value("signature");
    let first = if is_list(contract) { 3 } else { value.len() - 64 };
    let last = value.trim_end_matches('=').len() - 1;
    for (name, at) in [
        ("the first digit of the signature changed", first),
        ("a digit in the middle of the signature changed", first + 32),
        // The last digit of base64 has two bits to spare: another text for the same bytes is refused as well.
        ("the last digit of the signature changed", last),
    ] {
        let mut digits = value.clone().into_bytes();
        digits[at] = if digits[at] == b'0' { b'1' } else { b'0' };
        if is_list(contract) && at == last {
            digits[at] = value.as_bytes()[at] + 1;
        }
        let digits = String::from_utf8(digits).unwrap();
        vectors.add(name, &sent.clone().with_value("signature", &digits), mismatch);
    }
}

fn is_list(contract: &str) -> bool {
    matches!(contract, "standard" | "sendnomi")
}

fn misshapen(vectors: &mut Vectors, contract: &'static str) {
    let sent = Case::sent(contract);
    let value = sent.value("signature");
    vectors.add("no signature header", &sent.clone().without("signature"), "missing_header");
    vectors.add("an empty signature header", &sent.clone().with_value("signature", ""), "missing_header");
    vectors.add("the signature header twice", &sent.clone().repeated("signature"), "repeated_header");
    let mut malformed = |name: &str, value: &str| {
        vectors.add(name, &sent.clone().with_value("signature", value), "malformed_signature");
    };
    let digits_at = if is_list(contract) { 3 } else { value.len() - 64 };
    let (start, digits) = value.split_at(digits_at);
    malformed("an empty signature", start);
    malformed("a signature cut short", &value[..value.len() - 1]);
    malformed("half a signature", &format!("{start}{}", &digits[..digits.len() / 2]));
    malformed("a signature too long", &format!("{value}0"));
    malformed("a signature twice over", &format!("{value}{digits}"));
    malformed("a signature with a newline", &format!("{value}\n"));
    malformed("a space before", &format!(" {value}"));
    malformed("a header of more than two thousand characters", &format!("{value}{}", "0".repeat(2048)));
    malformed("signatures without end", &vec![value.as_str(); 50].join(" "));
    malformed(
        "letters that look alike",
        &format!("{start}{}", digits.replace(|c: char| c.is_ascii_digit(), "１")),
    );
    malformed("only the signature", digits);
    if is_list(contract) {
        malformed("hex where base64 belongs", &format!("v1,{}", "0123456789abcdef".repeat(4)));
        malformed("base64 without its padding", value.trim_end_matches('='));
        malformed("base64 for addresses", &format!("v1,{}=", "-_".repeat(22).split_at(43).0));
    } else {
        malformed("hex in capitals", &format!("{start}{}", digits.to_ascii_uppercase()));
        malformed("base64 where hex belongs", &format!("{start}{}=", "QUJD".repeat(11).split_at(43).0));
        malformed("a list of versions", "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    }
}

fn misconfigured(vectors: &mut Vectors, contract: &'static str) {
    let sent = Case::sent(contract);
    let own = secret(contract, 1);
    let mut refused =
        |name: &str, secrets: &[&str]| vectors.add(name, &sent.clone().secrets(secrets), "misconfigured");
    refused("no secret at all", &[]);
    refused("an empty secret", &[""]);
    refused("a good secret and an empty one", &[&own, ""]);
    refused("a secret with a newline at its end", &[&format!("{own}\n")]);
    refused("a secret far too short", &["whsec_c2hvcnQ="]);
}

fn times(vectors: &mut Vectors, contract: &'static str) {
    let sent = Case::sent(contract);
    vectors.add("as old as is allowed", &sent.clone().at(300), "ok");
    vectors.add("a second too old", &sent.clone().at(301), "timestamp_too_old");
    vectors.add("years old", &sent.clone().at(100_000_000), "timestamp_too_old");
    vectors.add("as far ahead as is allowed", &sent.clone().at(-300), "ok");
    vectors.add("a second too far ahead", &sent.clone().at(-301), "timestamp_too_new");
    vectors.add("old, with more tolerance", &sent.clone().at(3600).tolerance(3600), "ok");
    vectors.add("a second old, with no tolerance", &sent.clone().at(1).tolerance(0), "timestamp_too_old");
    let now = NOW_SECONDS.to_string();
    for (name, text) in [
        ("a time with a fraction", format!("{now}.0")),
        ("a time with a sign", format!("+{now}")),
        ("a negative time", format!("-{now}")),
        ("a time with an exponent", "1e9".to_owned()),
        ("a time in hex", "0x6af7d2d8".to_owned()),
        ("a time with a space", format!(" {now}")),
        ("a time with a newline", format!("{now}\n")),
        ("a time in digits of another script", now.replace('1', "１")),
        ("a time of many digits", now.repeat(3)),
        ("a time in words", "now".to_owned()),
        ("a date", "2026-11-15T09:30:00Z".to_owned()),
    ] {
        vectors.add(name, &sent.clone().with_timestamp(&text), "malformed_timestamp");
    }
}

fn branded(vectors: &mut Vectors, contract: &'static str) {
    let brand = Case::signed(contract, Some("Acme-Pay"), &[secret(contract, 1)], "{\"a\":1}");
    vectors.add("under another brand", &brand, "ok");
    let sent = Case::sent(contract);
    let other = Case { brand: Some("Acme-Pay"), ..sent.clone() };
    vectors.add("another brand than is expected", &other, "missing_header");
    vectors.add("a brand that is none", &sent.brand("Acme Pay\r\nX"), "misconfigured");
}

/// Special cases of `webhook-signature`, which can hold several signatures.
fn lists(vectors: &mut Vectors) {
    for contract in ["standard", "sendnomi"] {
        let sent = Case::sent(contract);
        vectors.add(
            "the id changed",
            &sent.clone().with_value("id", "evt_0dr5k2m8a0002"),
            "signature_mismatch",
        );
        let later = (NOW_SECONDS + 60).to_string();
        vectors.add("the time changed", &sent.clone().with_value("timestamp", &later), "signature_mismatch");
        vectors.add("no id", &sent.clone().without("id"), "missing_header");
        vectors.add("an empty id", &sent.clone().with_value("id", ""), "missing_header");
        vectors.add("two ids", &sent.clone().repeated("id"), "repeated_header");
        vectors.add("an id with a space", &sent.clone().with_value("id", "evt 1"), "malformed_id");
        vectors.add("an id that is not ASCII", &sent.clone().with_value("id", "evt_é"), "malformed_id");
        vectors.add("an endless id", &sent.clone().with_value("id", &"e".repeat(257)), "malformed_id");
        vectors.add("no time", &sent.clone().without("timestamp"), "missing_header");
        vectors.add("an empty time", &sent.clone().with_value("timestamp", ""), "missing_header");
        vectors.add("two times", &sent.clone().repeated("timestamp"), "repeated_header");
        let value = sent.value("signature");
        let mut listed = |name: &str, value: &str, expect: &str| {
            vectors.add(name, &sent.clone().with_value("signature", value), expect);
        };
        let wrong = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        listed("a wrong signature before the right one", &format!("{wrong} {value}"), "ok");
        listed("a wrong signature after the right one", &format!("{value} {wrong}"), "ok");
        listed("the right signature twice", &format!("{value} {value}"), "ok");
        listed("two wrong signatures", &format!("{wrong} {wrong}"), "signature_mismatch");
        listed("an unknown version before the right one", &format!("v2,new {value}"), "ok");
        listed("only an unknown version", "v2,new", "no_usable_signature");
        listed("a version by another name", &value.replace("v1,", "V1,"), "no_usable_signature");
        listed("two spaces between two signatures", &format!("{value}  {wrong}"), "malformed_signature");
        listed("a space after", &format!("{value} "), "malformed_signature");
        listed(
            "a malformed signature beside the right one",
            &format!("{value} v1,AAAA"),
            "malformed_signature",
        );
        listed("no version", &value.replace("v1", ""), "malformed_signature");
        listed("no comma", "v1", "malformed_signature");
    }
    let as_text = Case { contract: "sendnomi", ..Case::sent("standard") };
    vectors.add("signed with the decoded secret", &as_text, "signature_mismatch");
}

/// Special cases of `t=…,v1=…`.
fn stamps(vectors: &mut Vectors) {
    for contract in ["zerofee", "bastionary"] {
        let sent = Case::sent(contract);
        let later = (NOW_SECONDS + 60).to_string();
        vectors.add("the time changed", &sent.clone().with_timestamp(&later), "signature_mismatch");
        vectors.add("an empty time", &sent.clone().with_timestamp(""), "malformed_timestamp");
        let value = sent.value("signature");
        let (t, v1) = value.split_once(',').unwrap();
        for (name, value) in [
            ("no time", v1.to_owned()),
            ("no signature", t.to_owned()),
            ("two times", format!("{t},{value}")),
            ("two signatures", format!("{value},{v1}")),
            ("the signature first", format!("{v1},{t}")),
            ("a space after the comma", format!("{t}, {v1}")),
            ("another version", value.replace("v1=", "v0=")),
            ("the header joined with its double", format!("{value}, {value}")),
        ] {
            vectors.add(name, &sent.clone().with_value("signature", &value), "malformed_signature");
        }
    }
}

/// Known gaps: anyone with a request can change what these two contracts leave unsigned.
fn unsigned_parts(vectors: &mut Vectors) {
    let orientedos = Case::sent("orientedos");
    vectors.add("years old: it carries no time", &orientedos.clone().at(100_000_000), "ok");
    let other = orientedos.clone().with_value("delivery-id", "dlv_0000000000009");
    vectors.add("the id changed: it is not signed", &other, "ok");
    vectors.add("no id", &orientedos.clone().without("delivery-id"), "missing_header");
    vectors.add("two ids", &orientedos.repeated("delivery-id"), "repeated_header");
    let simpaisa = Case::sent("simpaisa");
    let later = (NOW_SECONDS + 3600).to_string();
    let fresh = simpaisa.clone().at(3600).with_value("timestamp", &later);
    vectors.add("old, the time changed: it is not signed", &fresh, "ok");
    vectors.add("no time", &simpaisa.clone().without("timestamp"), "missing_header");
    vectors.add("two times", &simpaisa.repeated("timestamp"), "repeated_header");
    for contract in ["orientedos", "simpaisa"] {
        let sent = Case::sent(contract);
        let other = sent.value("signature").replace("sha256=", "sha1=");
        vectors.add("another algorithm", &sent.with_value("signature", &other), "malformed_signature");
    }
}

fn keys_of_standard(vectors: &mut Vectors) {
    let sent = Case::sent("standard");
    let own = secret("standard", 1);
    let mut refused =
        |name: &str, secret: &str| vectors.add(name, &sent.clone().secrets(&[secret]), "misconfigured");
    refused("a secret without whsec_", own.trim_start_matches("whsec_"));
    refused("a secret that is not base64", "whsec_not base64, but long enough to be a key");
    refused("a secret without its padding", own.trim_end_matches('='));
    refused("a secret of 65 bytes", &format!("whsec_{}AAA=", "AAAA".repeat(21)));
    refused("the sender's private key", &ed25519(7).0);
    refused("a public key cut short", "whpk_AAAA");
    let both = [secret("standard", 1), secret("standard", 2)];
    let rotating = Case::signed("standard", None, &both, "{\"a\":1}");
    for secret in &both {
        let name = format!("signed with both secrets of a rotation, {} is known", &secret[6..10]);
        vectors.add(&name, &rotating.clone().secrets(&[secret]), "ok");
    }
    vectors.add("a brand, which it has no place for", &sent.brand("Acme"), "misconfigured");
    vectors.add("a brand, which it has no place for", &Case::sent("sendnomi").brand("Acme"), "misconfigured");
}

fn public_keys(vectors: &mut Vectors) {
    let (private, public) = ed25519(7);
    let other = ed25519(8).1;
    let hmac = secret("standard", 1);
    let only = Case::signed("standard", None, std::slice::from_ref(&private), "{\"a\":1}");
    let both = Case::signed("standard", None, &[hmac.clone(), private], "{\"a\":1}");
    let flip = |body: &mut Vec<u8>| *body.last_mut().unwrap() ^= 1;
    let mut add = |name: &str, case: &Case, secrets: &[&str], expect: &str, without: &str| {
        vectors.add_ed25519(name, &case.clone().secrets(secrets), expect, without);
    };
    add("ed25519, the public key is known", &only, &[&public], "ok", "misconfigured");
    add("ed25519, public key and secret are known", &only, &[&hmac, &public], "ok", "no_usable_signature");
    add("ed25519, the second of two public keys", &only, &[&other, &public], "ok", "misconfigured");
    add("ed25519, another public key", &only, &[&other], "signature_mismatch", "misconfigured");
    add("ed25519, only a secret is known", &only, &[&hmac], "no_usable_signature", "no_usable_signature");
    add(
        "ed25519, the body changed",
        &only.clone().body(flip),
        &[&public],
        "signature_mismatch",
        "misconfigured",
    );
    add("both kinds, both are known", &both, &[&hmac, &public], "ok", "ok");
    add("both kinds, the secret is known", &both, &[&hmac], "ok", "ok");
    add("both kinds, the public key is known", &both, &[&public], "ok", "misconfigured");
    add("both kinds, another public key beside", &both, &[&other, &hmac], "ok", "ok");
    add(
        "both kinds, the body changed",
        &both.body(flip),
        &[&hmac, &public],
        "signature_mismatch",
        "signature_mismatch",
    );
    let value = only.value("signature");
    let cut = only.clone().with_value("signature", &value[..value.len() - 4]);
    add("ed25519, cut short", &cut, &[&hmac, &public], "malformed_signature", "malformed_signature");
    let as_hmac = only.with_value("signature", &value.replace("v1a,", "v1,"));
    add(
        "ed25519 under the other name",
        &as_hmac,
        &[&hmac, &public],
        "malformed_signature",
        "malformed_signature",
    );
}

fn file() -> String {
    let about = "What Posthaste sends, and what can be wrong with it. Written by tests/receiver_kits; every kit's tests read it.";
    let cases: Vec<String> = all().iter().map(|case| format!("    {case}")).collect();
    format!("{{\n  \"about\": {},\n  \"cases\": [\n{}\n  ]\n}}\n", json!(about), cases.join(",\n"))
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how a person asks for the file to be written anew")]
fn the_file_of_vectors_is_what_the_product_sends() {
    let (path, now) = (kit("vectors.json"), file());
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = kept.lines().zip(now.lines()).find(|(kept, now)| kept != now);
    assert!(
        kept == now,
        "receivers/vectors.json is not what the product sends now. If that was meant to change, write it anew with\n  \
         {WRITE}=1 cargo test --test receiver_kits the_file_of_vectors\n{differs:?}"
    );
}

#[test]
fn every_form_has_good_and_bad_vectors_and_every_name_is_used_once() {
    let vectors = all();
    let mut names: Vec<_> = vectors.iter().map(|case| case["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    for contract in CONTRACTS {
        let of = |expect: &str| {
            vectors.iter().filter(|case| case["contract"] == contract && case["expect"] == expect).count()
        };
        for expect in ["ok", "signature_mismatch", "malformed_signature", "missing_header", "misconfigured"] {
            assert!(of(expect) >= 3, "{contract}: {} are {expect}", of(expect));
        }
    }
    println!("{count} vectors");
}
