//! Text with variables in braces, parsed once when the contract is read.

use std::fmt::{self, Write};

/// Variables of templates. Each place allows some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variable {
    /// Signed id: the event's public id, or its own id where the public one would be ambiguous.
    Id,
    /// The event's public id, always.
    EventId,
    Type,
    /// Unix seconds of the attempt.
    T,
    /// The attempt's number.
    Attempt,
    /// The id of the attempt's row in the log, new for every attempt.
    AttemptId,
    /// The id of the delivery at the root of all replays, the same on every attempt.
    DeliveryId,
    Body,
    Signature,
    Brand,
    /// The version of this product.
    Version,
}

impl Variable {
    const ALL: [Self; 11] = [
        Self::Id,
        Self::EventId,
        Self::Type,
        Self::T,
        Self::Attempt,
        Self::AttemptId,
        Self::DeliveryId,
        Self::Body,
        Self::Signature,
        Self::Brand,
        Self::Version,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::EventId => "event_id",
            Self::Type => "type",
            Self::T => "t",
            Self::Attempt => "attempt",
            Self::AttemptId => "attempt_id",
            Self::DeliveryId => "delivery_id",
            Self::Body => "body",
            Self::Signature => "signature",
            Self::Brand => "brand",
            Self::Version => "version",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    Literal(Box<str>),
    Variable(Variable),
}

/// Use of a template, which decides its allowed and required variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TemplateUse {
    UserAgent,
    Header,
    SignedText,
    SignatureValue,
}

impl TemplateUse {
    fn allows(self, variable: Variable) -> bool {
        match self {
            Self::UserAgent => matches!(variable, Variable::Brand | Variable::Version),
            Self::Header => !matches!(variable, Variable::Body | Variable::Signature),
            Self::SignedText => variable != Variable::Signature,
            Self::SignatureValue => variable != Variable::Body,
        }
    }

    fn required_variable(self) -> Option<Variable> {
        match self {
            Self::SignedText => Some(Variable::Body),
            Self::SignatureValue => Some(Variable::Signature),
            Self::UserAgent | Self::Header => None,
        }
    }

    fn allowed_names(self) -> String {
        let names =
            Variable::ALL.into_iter().filter(|&v| self.allows(v)).map(|v| format!("{{{}}}", v.name()));
        names.collect::<Vec<_>>().join(", ")
    }
}

#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    source: String,
    segments: Box<[Segment]>,
}

impl Template {
    /// Parses `source`; the error says what is wrong with it.
    pub(super) fn parse(source: &str, template_use: TemplateUse) -> Result<Self, String> {
        if source.is_empty() || source.len() > 500 || !source.bytes().all(|b| (0x20..0x7f).contains(&b)) {
            return Err("must be 1 to 500 printable ASCII characters".into());
        }
        let mut segments = Vec::new();
        let mut rest = source;
        while let Some((literal, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or("has a { without its }")?;
            let variable = Variable::ALL.into_iter().find(|v| v.name() == name && template_use.allows(*v));
            let variable = variable
                .ok_or_else(|| format!("has {{{name}}}; it may name {}", template_use.allowed_names()))?;
            push_literal(&mut segments, literal)?;
            segments.push(Segment::Variable(variable));
            rest = after;
        }
        push_literal(&mut segments, rest)?;
        let template = Self { source: source.to_owned(), segments: segments.into() };
        match template_use.required_variable() {
            Some(needed) if !template.contains(needed) => Err(format!("must contain {{{}}}", needed.name())),
            _ => Ok(template),
        }
    }

    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    pub fn contains(&self, variable: Variable) -> bool {
        self.segments.contains(&Segment::Variable(variable))
    }
}

fn push_literal(segments: &mut Vec<Segment>, literal: &str) -> Result<(), String> {
    if literal.contains('}') {
        return Err("has a } without its {".into());
    }
    if !literal.is_empty() {
        segments.push(Segment::Literal(literal.into()));
    }
    Ok(())
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('`')?;
        f.write_str(&self.source)?;
        f.write_char('`')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_parsed_into_literals_and_variables() {
        let template = Template::parse("t={t},v1={signature}", TemplateUse::SignatureValue).unwrap();
        let literal = |text: &str| Segment::Literal(text.into());
        assert_eq!(
            template.segments(),
            [
                literal("t="),
                Segment::Variable(Variable::T),
                literal(",v1="),
                Segment::Variable(Variable::Signature)
            ]
        );
        assert!(template.contains(Variable::T) && !template.contains(Variable::Id));
    }

    #[test]
    fn unknown_and_misplaced_variables_are_refused_with_what_is_allowed() {
        let refusal = |source, template_use| Template::parse(source, template_use).unwrap_err();
        assert_eq!(
            refusal("{colour}", TemplateUse::UserAgent),
            "has {colour}; it may name {brand}, {version}"
        );
        assert!(
            refusal("{body}", TemplateUse::Header).starts_with("has {body}; it may name {id}, {event_id}")
        );
        assert!(refusal("{signature}{body}", TemplateUse::SignedText).starts_with("has {signature}"));
        assert_eq!(refusal("{t}", TemplateUse::SignedText), "must contain {body}");
        assert_eq!(refusal("v1", TemplateUse::SignatureValue), "must contain {signature}");
        for broken in ["{t", "t}", "{t}}", "{", "}{t}"] {
            assert!(Template::parse(broken, TemplateUse::Header).is_err(), "{broken}");
        }
        for unprintable in ["", "a\r\nb", "ü", "\0", "\x7f"] {
            assert!(Template::parse(unprintable, TemplateUse::Header).is_err(), "{unprintable:?}");
        }
    }
}
