//! Header names, which may contain `{brand}`: one contract gives every company its own names.

use crate::{field_error::FieldError, static_headers};
use std::collections::BTreeMap;

pub(super) const BRAND: &str = "{brand}";

/// Collects the header names of a contract while it is read: brand filled in, duplicates in any case rejected.
pub(super) struct HeaderNames<'a> {
    brand: &'a str,
    /// Spelling in the document by name on the wire.
    spellings: BTreeMap<String, String>,
}

impl<'a> HeaderNames<'a> {
    pub(super) fn new(brand: &'a str) -> Self {
        Self { brand, spellings: BTreeMap::new() }
    }

    /// Returns the name on the wire, in lower case. `field` is the document's field, for errors.
    pub(super) fn add(&mut self, field: &str, spelling: &str) -> Result<String, FieldError> {
        let refuse = |message: String| Err(FieldError::new(field, message));
        if spelling.replace(BRAND, "").contains(['{', '}']) {
            return refuse(format!("may have {BRAND} in its name, and nothing else in braces"));
        }
        let is_branded = spelling.contains(BRAND);
        if is_branded && !static_headers::is_name(&self.brand.to_ascii_lowercase()) {
            let message = format!(
                "must be letters, digits, - and _, without spaces: `{field}` has it in a header's name"
            );
            return Err(FieldError::new("brand", message));
        }
        let name = spelling.replace(BRAND, self.brand).to_ascii_lowercase();
        if !static_headers::is_name(&name) {
            return refuse("must be a header name of 1 to 128 characters".into());
        }
        if static_headers::is_reserved(&name) {
            return refuse("is written by the product itself".into());
        }
        match self.spellings.insert(name.clone(), spelling.to_owned()) {
            None => Ok(name),
            Some(_) if field == "signature.header" => refuse("is also one of the other headers".into()),
            Some(other) if is_branded || other.contains(BRAND) => {
                refuse(format!("is `{name}` with this brand, and so is `{other}`"))
            }
            Some(_) => refuse("is given twice; header names ignore case".into()),
        }
    }

    pub(super) fn into_spellings(self) -> BTreeMap<String, String> {
        self.spellings
    }
}

#[cfg(test)]
mod tests {
    use crate::contract::{Contract, OverrideLevel, fixtures};
    use serde_json::{Value, json};

    fn branded(contract: &Contract, overrides: &Value) -> Result<Contract, String> {
        contract.with_overrides(overrides, OverrideLevel::Operator).map_err(|error| error.to_string())
    }

    #[test]
    fn another_brand_renames_every_header_that_has_it_and_the_document_keeps_the_template() {
        let acme = branded(&fixtures::zerofee(), &json!({ "brand": "Acme" })).unwrap();
        assert_eq!(
            acme.headers.keys().collect::<Vec<_>>(),
            ["x-acme-delivery", "x-acme-event", "x-acme-timestamp"]
        );
        assert_eq!(acme.signature.header, "x-acme-signature");
        let document = serde_json::to_value(&acme).unwrap();
        assert_eq!(document["signature"]["header"], "X-{brand}-Signature");
        assert_eq!(document["headers"]["X-{brand}-Event"], "{type}");
        assert_eq!(Contract::from_json(&acme.to_json()).unwrap(), acme);
        let back = branded(&acme, &json!({ "brand": "ZeroFee" })).unwrap();
        assert_eq!(back.hash(), fixtures::zerofee().hash());
    }

    #[test]
    fn a_brand_that_cannot_be_part_of_a_header_is_refused_only_where_one_has_it() {
        for brand in ["Corner Bakery", "a:b", "a/b"] {
            let refusal = branded(&fixtures::simpaisa(), &json!({ "brand": brand })).unwrap_err();
            assert!(refusal.starts_with("brand: must be letters, digits, - and _"), "{refusal}");
            assert!(refusal.contains("has it in a header's name"), "{refusal}");
        }
        assert!(branded(&fixtures::standard(), &json!({ "brand": "Corner Bakery" })).is_ok());
        assert!(branded(&fixtures::simpaisa(), &json!({ "brand": "x".repeat(120) })).is_err(), "too long");
    }

    #[test]
    fn names_that_a_brand_makes_equal_are_refused() {
        let overrides = json!({ "headers": { "x-acme-event": "1" }, "brand": "Acme" });
        let refusal = branded(&fixtures::zerofee(), &overrides).unwrap_err();
        assert!(refusal.contains("is `x-acme-event` with this brand, and so is `"), "{refusal}");
        let fits = json!({ "headers": { "x-acme-event": "1" }, "brand": "Beta" });
        assert!(branded(&fixtures::zerofee(), &fits).is_ok());
        let taken = json!({ "brand": "Content", "headers": { "{brand}-Type": "x" } });
        assert!(
            branded(&fixtures::zerofee(), &taken).unwrap_err().ends_with("is written by the product itself")
        );
        let other = json!({ "headers": { "x-{type}": "x" } });
        assert!(branded(&fixtures::zerofee(), &other).unwrap_err().contains("nothing else in braces"));
    }

    #[test]
    fn an_override_of_a_header_finds_it_in_any_case_and_null_takes_it_away() {
        let contract =
            branded(&fixtures::zerofee(), &json!({ "headers": { "x-{brand}-EVENT": "a {type}" } })).unwrap();
        assert_eq!(contract.headers["x-zerofee-event"].source(), "a {type}");
        let contract = branded(&contract, &json!({ "headers": { "X-{brand}-Event": null } })).unwrap();
        assert!(!contract.headers.contains_key("x-zerofee-event"));
        assert_eq!(contract.headers.len(), 2);
        let by_its_real_name = json!({ "brand": "Acme", "headers": { "x-acme-timestamp": null } });
        let contract = branded(&contract, &by_its_real_name).unwrap();
        assert_eq!(contract.headers.keys().collect::<Vec<_>>(), ["x-acme-delivery"]);
    }
}
